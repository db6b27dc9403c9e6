"""Labelled images: found, checked, divided, prepared and given in batches.

Every image carries an id that leads back to its file.
"""

from dnc.data.batch import Batch, Loader
from dnc.data.collection import BadFile, DataSplits, Images
from dnc.data.images import image_from_array, read_image
from dnc.data.inspection import Duplicates, Inspection, Spread, inspect_data
from dnc.data.loading import loader
from dnc.data.pictures import samples_figure
from dnc.data.preparation import prepared
from dnc.data.settings import Augmentation, Preprocessing
from dnc.data.sources import KINDS, open_data

__all__ = [
    "KINDS",
    "Augmentation",
    "BadFile",
    "Batch",
    "DataSplits",
    "Duplicates",
    "Images",
    "Inspection",
    "Loader",
    "Preprocessing",
    "Spread",
    "image_from_array",
    "inspect_data",
    "loader",
    "open_data",
    "prepared",
    "read_image",
    "samples_figure",
]
