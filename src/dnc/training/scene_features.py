"""Features of positions in scenes, as a segmenter sees them in evaluation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from dnc.centroids.exchange import World
from dnc.centroids.lot import at_most_of_each_class
from dnc.centroids.validation import Rows
from dnc.data import IGNORED, Scenes, WholeScene, whole_scenes
from dnc.models import Segmenter
from dnc.scene_recognition import SceneRecognizer
from dnc.training.features import Features, in_evaluation

# Positions of training scenes that are looked at; their features must fit into memory.
MOST_POSITIONS = 200_000
# Classes that a scene has, about; so many positions of each are drawn that the sum is as wanted.
CLASSES_OF_A_SCENE = 10

# A place is an image, a row and a column of its feature map, in one number.
_BITS = 12


@dataclass(frozen=True)
class Place:
    """A position of a scene's feature map."""

    image: int
    row: int
    column: int

    @classmethod
    def of(cls, number: int) -> "Place":
        """The place that a number stands for."""
        side = 1 << _BITS
        return cls(number >> (2 * _BITS), (number >> _BITS) % side, number % side)


def place_numbers(
    image: int, rows: Int[Tensor, " n"], columns: Int[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """A number for each position of an image, from which `Place.of` finds it again."""
    return (image << (2 * _BITS)) + (rows << _BITS) + columns


def middle_pixels(positions: int, pixels: int, *, seen: int, stride: int) -> NDArray[np.int64]:
    """The pixel in the middle of each position along a side; beyond the image, that many pixels.

    Args:
        positions: along the side.
        pixels: of the image along it.
        seen: pixels that the network saw along it.
        stride: seen pixels between two positions.

    """
    middles = (2 * np.arange(positions) + 1) * stride
    return np.where(middles < 2 * seen, middles * pixels // (2 * seen), pixels)


@dataclass(frozen=True)
class ShownScenes:
    """Training scenes, and how a segmenter is shown them.

    Attributes:
        scenes: the scenes.
        recognizer: how they become the input of its model.
        workers: threads that read them.
        wanted: numbers of the places that count; None draws some of each class by lot.
        on_progress: is told how many of how many scenes were looked at.
    """

    scenes: Scenes
    recognizer: SceneRecognizer
    workers: int | None
    wanted: frozenset[int] | None = None
    on_progress: Callable[[int, int], None] | None = None

    def only(self, ids: NDArray[np.int64]) -> "ShownScenes":
        """The places with these numbers, in the scenes that have them."""
        wanted = frozenset(ids.ravel().tolist())
        images = {Place.of(number).image for number in wanted}
        chosen = [i for i, number in enumerate(self.scenes.ids.tolist()) if number in images]
        return replace(self, scenes=self.scenes.subset(chosen), wanted=wanted)

    @torch.no_grad()
    def batches(self, model: Segmenter, *, divided: bool) -> Iterator[Features]:
        """What the model sees in each scene; `divided`, in this process's share of them."""
        world = World.current() if divided else World(0, 1)
        read = whole_scenes(self.scenes, workers=self.workers, rank=world.rank, world=world.size)
        most = max(1, MOST_POSITIONS // (CLASSES_OF_A_SCENE * max(1, len(self.scenes))))
        with in_evaluation(model):
            for done, scene in enumerate(read, start=1):
                rows = self._rows(model, scene)
                if self.wanted is None:
                    rows = at_most_of_each_class(rows, most, seed=0, step=0)
                yield Features(rows.features, rows.labels, rows.ids, read.bad_files)
                if self.on_progress is not None:
                    self.on_progress(done, len(read))
        # Of a share without a single scene that can be read.
        none = torch.zeros(0, dtype=torch.long)
        yield Features(torch.zeros(0, model.dim), none, none, read.bad_files)

    def features(self, model: Segmenter, *, divided: bool) -> Features:
        """All of it."""
        return Features.joined(list(self.batches(model, divided=divided)))

    def _rows(self, model: Segmenter, scene: WholeScene) -> Rows:
        features, seen = self.recognizer.with_model(model).features(scene.image)
        assert scene.mask is not None
        labels = torch.from_numpy(labels_of_map(scene.mask, features, seen, model.stride))
        rows, columns = (labels != IGNORED).nonzero().unbind(dim=1)
        numbers = place_numbers(scene.id, rows, columns)
        if self.wanted is not None:
            counts = torch.isin(numbers, torch.tensor(sorted(self.wanted)))
            rows, columns, numbers = rows[counts], columns[counts], numbers[counts]
        found = features.cpu()[:, rows, columns].mT
        return Rows(found, labels[rows, columns].long(), numbers, torch.zeros_like(numbers))


def labels_of_map(
    mask: NDArray[np.int16], features: Tensor, seen: tuple[int, int], stride: int
) -> NDArray[np.int16]:
    """The class of the pixel in the middle of each position of a feature map."""
    down, across = (
        middle_pixels(positions, pixels, seen=shown, stride=stride)
        for positions, pixels, shown in zip(features.shape[1:], mask.shape, seen, strict=True)
    )
    # One more row and column for positions beyond the image.
    framed = np.pad(mask, ((0, 1), (0, 1)), constant_values=IGNORED)
    return framed[np.ix_(down, across)]
