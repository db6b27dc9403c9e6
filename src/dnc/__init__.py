"""Deep Nearest Centroids: recognition by cases."""

from dnc.centroids import Decision, Health, SubCentroidHead, kmeans, sinkhorn
from dnc.estimator import NearestSubCentroids

__version__ = "0.1.0"

__all__ = [
    "Decision",
    "Health",
    "NearestSubCentroids",
    "SubCentroidHead",
    "__version__",
    "kmeans",
    "sinkhorn",
]
