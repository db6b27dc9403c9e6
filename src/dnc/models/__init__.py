"""Networks for images, and the classifiers that stand on them."""

from dnc.models.centring import Centring, Whitening, centring_layer
from dnc.models.classification import Classifier
from dnc.models.conversion import convert
from dnc.models.heads import HeadSettings, Kind, subcentroid_head
from dnc.models.networks import NetworkInfo, backbone, classifier, describe, network_names
from dnc.models.paper import PaperParameters, paper_parameters

__all__ = [
    "Centring",
    "Classifier",
    "HeadSettings",
    "Kind",
    "NetworkInfo",
    "PaperParameters",
    "Whitening",
    "backbone",
    "centring_layer",
    "classifier",
    "convert",
    "describe",
    "network_names",
    "paper_parameters",
    "subcentroid_head",
]
