"""Labelled images and scenes: found, checked, divided, prepared and given in batches.

Every image carries an id that leads back to its file.
"""

from dnc.data.batch import Batch, Loader
from dnc.data.collection import BadFile, DataSplits, Images, Splits
from dnc.data.drawing import draw_scenes
from dnc.data.images import image_from_array, read_image
from dnc.data.inspecting import SameImages, Spread
from dnc.data.inspection import Duplicates, Inspection, inspect_data
from dnc.data.loading import loader
from dnc.data.masks import IGNORED, MaskCoding, colour_picture, read_mask
from dnc.data.pictures import samples_figure
from dnc.data.preparation import prepared
from dnc.data.scene_batch import SceneBatch, WholeScene
from dnc.data.scene_inspection import SceneInspection, inspect_scenes
from dnc.data.scene_loading import SceneLoader, WholeScenes, scene_loader, whole_scenes
from dnc.data.scene_pictures import scene_samples_figure
from dnc.data.scene_preparation import scene_input, varied_scene
from dnc.data.scene_settings import SceneAugmentation, ScenePreprocessing
from dnc.data.scene_sources import SCENE_KINDS, open_scenes, recognised_scene_kind
from dnc.data.scenes import Scenes, SceneSplits, default_colours
from dnc.data.settings import Augmentation, Preprocessing
from dnc.data.sources import KINDS, open_data

__all__ = [
    "IGNORED",
    "KINDS",
    "SCENE_KINDS",
    "Augmentation",
    "BadFile",
    "Batch",
    "DataSplits",
    "Duplicates",
    "Images",
    "Inspection",
    "Loader",
    "MaskCoding",
    "Preprocessing",
    "SameImages",
    "SceneAugmentation",
    "SceneBatch",
    "SceneInspection",
    "SceneLoader",
    "ScenePreprocessing",
    "SceneSplits",
    "Scenes",
    "Splits",
    "Spread",
    "WholeScene",
    "WholeScenes",
    "colour_picture",
    "default_colours",
    "draw_scenes",
    "image_from_array",
    "inspect_data",
    "inspect_scenes",
    "loader",
    "open_data",
    "open_scenes",
    "prepared",
    "read_image",
    "read_mask",
    "recognised_scene_kind",
    "samples_figure",
    "scene_input",
    "scene_loader",
    "scene_samples_figure",
    "varied_scene",
    "whole_scenes",
]
