"""Other ways to classify features that sub-centroids are compared with."""

from dnc.rivals.class_means import ClassMeanHead
from dnc.rivals.neighbours import NeighbourHead

__all__ = ["ClassMeanHead", "NeighbourHead"]
