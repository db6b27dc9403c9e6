"""What a segmenter makes of labelled scenes: every pixel, with the case that decided it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from dnc.data import IGNORED, BadFile, Scenes, whole_scenes
from dnc.errors import InvalidData
from dnc.evaluation import PixelEvaluation, PixelTally
from dnc.explanation.scenes import SceneExplainer
from dnc.recognition import class_map


@dataclass(frozen=True)
class SeenScene:
    """A scene in short.

    Attributes:
        position: among the scenes.
        accuracy: share of its pixels that were given their class; NaN if none counts.
        miou: mean IoU over the classes that it has or was given; NaN likewise.
    """

    position: int
    accuracy: float
    miou: float


@dataclass(frozen=True, eq=False)
class LookedScenes:
    """Scenes of one part of a data set, and what a segmenter makes of them.

    Attributes:
        part: train, validation, test or given.
        scenes: the scenes themselves.
        numbers: of each of their classes in the model, and of no class.
        evaluation: how well the model does.
        decided: pixels that count, by the case that has decided them (from 1) and by their class.
        seen: the scenes that could be read.
        bad_files: the others.
    """

    part: str
    scenes: Scenes
    numbers: NDArray[np.int64]
    evaluation: PixelEvaluation
    decided: Int[Tensor, "n c"]
    seen: tuple[SeenScene, ...]
    bad_files: tuple[BadFile, ...]

    def truth(self, position: int) -> NDArray[np.int64]:
        """The class of each pixel of a scene, by the model's numbers; below 0 without one."""
        return _renumbered(self.scenes.read_mask(position), self.numbers)


def looked_at_scenes(
    explainer: SceneExplainer,
    part: str,
    scenes: Scenes,
    *,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> LookedScenes:
    """Lets a segmenter look at scenes, each once, and counts."""
    if not len(scenes):
        raise InvalidData(f"There are no scenes to look at in {scenes.root}.")
    recognizer = explainer.recognizer
    classes = len(recognizer.classes)
    numbers = np.array([*class_map(recognizer.classes, scenes.classes), IGNORED])
    tally = PixelTally(classes)
    decided = np.zeros((len(explainer.places) + 1) * classes, dtype=np.int64)
    seen = []
    read = whole_scenes(scenes, workers=workers)
    for done, scene in enumerate(read, start=1):
        assert scene.mask is not None
        truth = _renumbered(scene.mask, numbers)
        name = scenes.names[scene.position]
        found = recognizer.segmented(name, scene.image)
        own = PixelTally(classes)
        own.add(torch.from_numpy(found.labels), torch.from_numpy(truth))
        tally.add_state(own.state())
        decided += _by_case_and_class(explainer.numbers(found), truth, classes, len(decided))
        seen.append(_in_short(own, recognizer.classes, scene.position))
        if on_progress is not None:
            on_progress(done, len(read))
    return LookedScenes(
        part=part,
        scenes=scenes,
        numbers=numbers,
        evaluation=tally.result(recognizer.classes),
        decided=torch.from_numpy(decided.reshape(-1, classes)[1:]),
        seen=tuple(seen),
        bad_files=read.bad_files,
    )


def _renumbered(mask: NDArray[np.int16], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    # The last one is that of no class, which -1 leads to.
    found: NDArray[np.int64] = numbers[np.maximum(mask, -1)]
    return found


def _by_case_and_class(
    cases: NDArray[np.uint16], truth: NDArray[np.int64], classes: int, cells: int
) -> NDArray[np.int64]:
    counts = truth >= 0
    cell = cases[counts].astype(np.int64) * classes + truth[counts]
    return np.bincount(cell, minlength=cells)


def _in_short(tally: PixelTally, classes: tuple[str, ...], position: int) -> SeenScene:
    try:
        found = tally.result(classes)
    except InvalidData:  # not a single pixel counts
        return SeenScene(position, float("nan"), float("nan"))
    return SeenScene(position, found.pixel_accuracy, found.miou)
