"""Networks for images, and the classifiers and segmenters that stand on them."""

from dnc.models.centring import Centring, Whitening, centring_layer
from dnc.models.classification import Classifier
from dnc.models.conversion import convert
from dnc.models.decoders import Architecture, DecoderSettings, Norm
from dnc.models.heads import AnyHead, HeadSettings, Kind, RivalSettings, subcentroid_head
from dnc.models.networks import NetworkInfo, backbone, classifier, describe, network_names
from dnc.models.paper import PaperParameters, paper_parameters
from dnc.models.segmentation import Segmenter
from dnc.models.segmenters import segmenter
from dnc.models.views import WHOLE, Views, viewed_features

__all__ = [
    "WHOLE",
    "AnyHead",
    "Architecture",
    "Centring",
    "Classifier",
    "DecoderSettings",
    "HeadSettings",
    "Kind",
    "NetworkInfo",
    "Norm",
    "PaperParameters",
    "RivalSettings",
    "Segmenter",
    "Views",
    "Whitening",
    "backbone",
    "centring_layer",
    "classifier",
    "convert",
    "describe",
    "network_names",
    "paper_parameters",
    "segmenter",
    "subcentroid_head",
    "viewed_features",
]
