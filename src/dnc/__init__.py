"""Deep Nearest Centroids: recognition by cases."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dnc.centroids import (
        Decision,
        Health,
        SubCentroidHead,
        kmeans,
        momentum_at,
        sinkhorn,
    )
    from dnc.estimator import NearestSubCentroids
    from dnc.explanation.anchors import Anchors, anchors
    from dnc.explanation.explanation import Explanation
    from dnc.explanation.rules import Rules
    from dnc.models import Classifier, HeadSettings, Segmenter, Views, convert
    from dnc.recognition import Prediction, Recognizer
    from dnc.scene_recognition import SceneRecognizer, Segmentation
    from dnc.training.checkpoint import load, save

__version__ = "0.1.0"

# Imported when first used: torch, timm and Lightning take seconds, `dnc --help` should not.
_LATER = {
    "Anchors": "dnc.explanation.anchors",
    "Classifier": "dnc.models",
    "Decision": "dnc.centroids",
    "Explanation": "dnc.explanation.explanation",
    "HeadSettings": "dnc.models",
    "Health": "dnc.centroids",
    "NearestSubCentroids": "dnc.estimator",
    "Prediction": "dnc.recognition",
    "Recognizer": "dnc.recognition",
    "Rules": "dnc.explanation.rules",
    "SceneRecognizer": "dnc.scene_recognition",
    "Segmentation": "dnc.scene_recognition",
    "Segmenter": "dnc.models",
    "SubCentroidHead": "dnc.centroids",
    "Views": "dnc.models",
    "anchors": "dnc.explanation.anchors",
    "convert": "dnc.models",
    "kmeans": "dnc.centroids",
    "load": "dnc.training.checkpoint",
    "momentum_at": "dnc.centroids",
    "save": "dnc.training.checkpoint",
    "sinkhorn": "dnc.centroids",
}

__all__ = [
    "Anchors",
    "Classifier",
    "Decision",
    "Explanation",
    "HeadSettings",
    "Health",
    "NearestSubCentroids",
    "Prediction",
    "Recognizer",
    "Rules",
    "SceneRecognizer",
    "Segmentation",
    "Segmenter",
    "SubCentroidHead",
    "Views",
    "__version__",
    "anchors",
    "convert",
    "kmeans",
    "load",
    "momentum_at",
    "save",
    "sinkhorn",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'dnc' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
