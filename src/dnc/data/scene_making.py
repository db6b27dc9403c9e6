"""Makes batches of squares from scenes, and holds what it has decoded."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset

from dnc.data.background import Answer
from dnc.data.collection import BadFile
from dnc.data.order import hashes
from dnc.data.scene_batch import SceneBatch
from dnc.data.scene_preparation import varied_scene
from dnc.data.scene_settings import SceneAugmentation, ScenePreprocessing
from dnc.data.scenes import Scenes
from dnc.errors import UnreadableImage

BYTES_PER_PIXEL = 4 + 2
"""Pillow takes four bytes for an RGB pixel; a mask takes two."""

DecodedScene = tuple[Image.Image, NDArray[np.int16]]


@dataclass(frozen=True)
class SceneRequest:
    """Which scenes are to be in a batch of an epoch."""

    positions: NDArray[np.int64]
    seed: int
    epoch: int


class HeldScenes:
    """Decoded scenes, held from their first use on as far as a limit allows.

    What is held stays: to make room for the latest, when every scene comes once in an epoch, would
    throw away each of them before it comes again.

    Args:
        scenes: what to read.
        limit_bytes: how much may be held.

    """

    def __init__(self, scenes: Scenes, limit_bytes: int) -> None:
        self.scenes = scenes
        self._left = limit_bytes
        self._held: dict[int, DecodedScene] = {}

    def __getitem__(self, position: int) -> DecodedScene | BadFile:
        """The image and the mask at a position, or why there are none."""
        if position in self._held:
            return self._held[position]
        decoded = decoded_scene(self.scenes, position)
        if not isinstance(decoded, BadFile):
            needed = decoded[1].size * BYTES_PER_PIXEL
            if needed <= self._left:
                self._left -= needed
                self._held[position] = decoded
        return decoded


class SceneMaker(Dataset[Answer[SceneBatch]]):
    """Makes batches on request.

    Args:
        held: the scenes.
        preprocessing: how images become the input of a network.
        augmentation: how squares are cut out and varied.

    """

    def __init__(
        self, held: HeldScenes, preprocessing: ScenePreprocessing, augmentation: SceneAugmentation
    ) -> None:
        self.held = held
        self.preprocessing = preprocessing
        self.augmentation = augmentation

    def __getitem__(self, request: SceneRequest) -> Answer[SceneBatch]:
        """The batch that was asked for, without the scenes that cannot be decoded."""
        ids, crop = self.held.scenes.ids[request.positions], self.augmentation.crop
        seeds = hashes(request.seed, request.epoch, ids, purpose="augmentation")
        pixels, labels, kept, bad = [], [], [], []
        for row, position in enumerate(request.positions.tolist()):
            decoded = self.held[position]
            if isinstance(decoded, BadFile):
                bad.append(decoded)
                continue
            image, classes = varied_scene(
                *decoded, self.preprocessing, self.augmentation, int(seeds[row])
            )
            pixels.append(image.permute(1, 2, 0))  # as it lies in memory
            labels.append(classes)
            kept.append(row)
        images = torch.stack(pixels) if kept else torch.empty(0, crop, crop, 3)
        batch = SceneBatch(
            images=images.permute(0, 3, 1, 2),
            labels=torch.stack(labels) if kept else torch.empty(0, crop, crop).long(),
            ids=torch.from_numpy(ids[kept]),
        )
        return Answer(batch, tuple(bad))


def decoded_scene(scenes: Scenes, position: int) -> DecodedScene | BadFile:
    """The image and the mask at a position; or the one of both that is bad, and why."""
    try:
        image = scenes.read(position)
        return image, scenes.read_mask(position, image.size)
    except UnreadableImage as error:
        return bad_file(scenes, position, error)


def bad_file(scenes: Scenes, position: int, error: UnreadableImage) -> BadFile:
    """The file of a scene that an error is about, and its reason."""
    of_mask = error.path == scenes.mask_path(position)
    return BadFile(scenes.masks[position] if of_mask else scenes.names[position], error.reason)
