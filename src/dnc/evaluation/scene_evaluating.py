"""A segmenter on a set of scenes: which pixels it gets right."""

from collections.abc import Callable

import numpy as np
import torch

from dnc.data import IGNORED, BadFile, Scenes, whole_scenes
from dnc.errors import InvalidData
from dnc.evaluation.pixel_results import PixelEvaluation
from dnc.evaluation.pixels import PixelTally
from dnc.models import Views
from dnc.recognition import class_map
from dnc.scene_recognition import SceneRecognizer


def evaluate_scenes(
    recognizer: SceneRecognizer,
    scenes: Scenes,
    *,
    views: Views | None = None,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_bad_file: Callable[[BadFile], None] | None = None,
) -> PixelEvaluation:
    """How well a segmenter does on scenes whose classes it knows by name.

    `on_progress` is told how many scenes are done, of how many; `on_bad_file` of each file that
    could not be read, which then counts neither as right nor as wrong.
    """
    if not len(scenes):
        raise InvalidData(f"There are no scenes to evaluate on in {scenes.root}.")
    # One more for pixels without a class, which -1 leads to.
    numbers = np.array([*class_map(recognizer.classes, scenes.classes), IGNORED])
    tally = PixelTally(len(recognizer.classes))
    read = whole_scenes(scenes, workers=workers)
    for done, scene in enumerate(read, start=1):
        assert scene.mask is not None
        truth = numbers[np.maximum(scene.mask, -1)]
        found = recognizer.labels(scene.image, views=views)
        tally.add(torch.from_numpy(found), torch.from_numpy(truth))
        if on_progress is not None:
            on_progress(done, len(read))
    if on_bad_file is not None:
        for bad in read.bad_files:
            on_bad_file(bad)
    return tally.result(recognizer.classes)
