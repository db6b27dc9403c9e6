"""Deep Nearest Centroids: recognition by cases."""

from dnc.centroids import Decision, Health, SubCentroidHead, kmeans, sinkhorn
from dnc.estimator import NearestSubCentroids
from dnc.explanation.anchors import Anchors, anchors

__version__ = "0.1.0"

__all__ = [
    "Anchors",
    "Decision",
    "Health",
    "NearestSubCentroids",
    "SubCentroidHead",
    "__version__",
    "anchors",
    "kmeans",
    "sinkhorn",
]
