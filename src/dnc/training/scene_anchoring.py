"""A finished segmenter with its sub-centroids put on places in training scenes."""

from dnc.data import SceneSplits
from dnc.scene_recognition import SceneRecognizer
from dnc.training.scene_casebase import with_scene_cases
from dnc.training.scene_features import ShownScenes
from dnc.training.tying import follow_images_, tie_


def anchored_scenes(
    recognizer: SceneRecognizer, splits: SceneSplits, *, workers: int | None
) -> SceneRecognizer:
    """The same segmenter with each sub-centroid put on the nearest place; nothing is trained.

    The model of the recognizer that is given is changed.
    """
    assert splits.train is not None
    shown = ShownScenes(splits.train, recognizer, workers)
    tie_(recognizer.model, shown, choice="nearest")
    follow_images_(recognizer.model, shown)
    seen = shown.features(recognizer.model, divided=False)
    return with_scene_cases(recognizer, splits, seen)
