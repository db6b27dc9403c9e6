"""Deep Nearest Centroids: recognition by cases."""

from dnc.centroids import SubCentroidHead, kmeans, sinkhorn

__version__ = "0.1.0"

__all__ = ["SubCentroidHead", "__version__", "kmeans", "sinkhorn"]
