"""Other ways to classify features that sub-centroids are compared with."""

from dnc.rivals.class_means import ClassMeanHead
from dnc.rivals.neighbours import NeighbourHead
from dnc.rivals.pixel_contrast import PixelProjection, drawn_pixels, pixel_contrast

__all__ = [
    "ClassMeanHead",
    "NeighbourHead",
    "PixelProjection",
    "drawn_pixels",
    "pixel_contrast",
]
