"""The scenes that a segmenter is evaluated on."""

from pathlib import Path

from dnc.data import Scenes, SceneSplits, open_scenes
from dnc.recognition import class_map
from dnc.scene_recognition import SceneRecognizer
from dnc.training.recipe import Recipe
from dnc.training.results import part_to_evaluate, was_trained_on


def scene_evaluation_sets(
    recipe: Recipe, splits: SceneSplits, recognizer: SceneRecognizer
) -> dict[str, Scenes]:
    """The test scenes, the validation scenes, and the recipe's further sets.

    Opened before the training, so that a set that is not there does not end a run of days.
    """
    parts = splits.parts()
    names: tuple[str, ...] = ("test", "validation")
    sets = {name: parts[name] for name in names if name in parts}
    for given in recipe.data.evaluate_on:
        path, kind = recipe.data.named_set(given)
        further = open_scenes(path, kind=kind, validation_share=0.0)
        sets[given] = part_to_evaluate(further, given)[1]
        class_map(recognizer.classes, sets[given].classes)
    return sets


def scene_split_of_training(
    recognizer: SceneRecognizer, path: Path, *, kind: str | None
) -> SceneSplits:
    """Scenes as they were split when the model was trained on them; else all as they are."""
    whole = open_scenes(path, kind=kind, validation_share=0.0)
    known = recognizer.notes.get("data")
    if whole.test is None and whole.validation is None and isinstance(known, dict):
        share, seed = known.get("validation_share"), known.get("seed")
        if isinstance(share, float) and 0 < share < 1 and type(seed) is int and seed >= 0:
            most = known.get("train_images")
            split = open_scenes(
                path,
                kind=kind,
                validation_share=share,
                seed=seed,
                train_images=most if type(most) is int and most > 0 else None,
            )
            if split.train is not None and was_trained_on(recognizer, split.train):
                return split
    return whole
