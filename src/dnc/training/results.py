"""What a finished run is measured on, and what is kept of it."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import torch

from dnc import __version__
from dnc.centroids import Fidelity, SubCentroidHead
from dnc.data import (
    BadFile,
    DataSplits,
    Images,
    Scenes,
    SceneSplits,
    Splits,
    open_data,
    open_scenes,
)
from dnc.data.splitting import at_most_per_class
from dnc.errors import InvalidData
from dnc.evaluation import Evaluation, PixelEvaluation, evaluate, write_evaluation
from dnc.files import restore_folder, whole_file
from dnc.recognition import Recognizer, class_map
from dnc.scene_recognition import AnyRecognizer, SceneRecognizer
from dnc.training.casebase import with_cases, write_case_table
from dnc.training.checkpoint import BEST, LAST, MODEL, load_classifier, save
from dnc.training.discovering import discovered
from dnc.training.features import Features, features_of, most_per_class
from dnc.training.gallery import gallery_figure
from dnc.training.history import Row, health_figures
from dnc.training.job import Result
from dnc.training.recipe import Recipe

RESULTS = "results.json"

Part = TypeVar("Part", Images, Scenes)


def evaluation_sets(
    recipe: Recipe,
    splits: Splits[Part],
    classes: Sequence[str],
    *,
    opened: Callable[..., Splits[Part]],
) -> dict[str, Part]:
    """The test images, the validation images, and the recipe's further sets.

    Opened before the training, so that a set that is not there does not end a run of days.

    Args:
        recipe: names the further sets.
        splits: the images of the run.
        classes: that the model knows.
        opened: opens a data set of the recipe's task.

    """
    parts = splits.parts()
    names: tuple[str, ...] = ("test", "validation")
    sets = {name: parts[name] for name in names if name in parts}
    for given in recipe.data.evaluate_on:
        path, kind = recipe.data.named_set(given)
        coarse = _coarse_options(recipe.data.coarse, classes)
        further = opened(path, kind=kind, validation_share=0.0, **coarse)
        sets[given] = part_to_evaluate(further, given)[1]
        class_map(classes, sets[given].classes)
    return sets


def part_to_evaluate(
    splits: Splits[Part],
    where: object,
    *,
    wanted: str | None = None,
    recognizer: AnyRecognizer | None = None,
) -> tuple[str, Part]:
    """The wanted part; or the test images if there are any, else the validation images, else all.

    Args:
        splits: the data set.
        where: the images are, for the error.
        wanted: train, validation or test.
        recognizer: the model; images that are in no part are `train` if it was trained on them,
            and else `given`.

    """
    parts = {name: images for name, images in splits.parts().items() if len(images)}
    for name in (wanted,) if wanted else ("test", "validation", "train"):
        if name in parts:
            images = parts[name]
            if recognizer is not None and list(parts) == ["train"]:
                name = name if was_trained_on(recognizer, images) else "given"
            return name, images
    missing = f"{wanted} images" if wanted else "images"
    raise InvalidData(f"{where} ({splits.kind}) has no {missing} to evaluate on.")


@overload
def split_of_training(
    recognizer: Recognizer, path: Path, *, kind: str | None, wanted: str | None = None
) -> DataSplits: ...  # of images


@overload
def split_of_training(
    recognizer: SceneRecognizer, path: Path, *, kind: str | None, wanted: str | None = None
) -> SceneSplits: ...  # of scenes


def split_of_training(
    recognizer: AnyRecognizer, path: Path, *, kind: str | None, wanted: str | None = None
) -> DataSplits | SceneSplits:
    """A data set as it was split when the model was trained on it; else all of it as it is.

    One that has test images is split again only if validation images are `wanted`. A model that
    was trained on coarse classes sees them in the place of the finer ones here too.
    """
    whole: DataSplits | SceneSplits = _opening(recognizer)(
        path, kind=kind, validation_share=0.0, **_coarse_of(recognizer)
    )
    has_enough = whole.test is not None and wanted != "validation"
    if whole.validation is not None or has_enough:
        return whole
    return _split_again(recognizer, path, kind=kind) or whole


def kept_for_validation(recognizer: AnyRecognizer, path: Path, *, kind: str | None) -> int:
    """How many training images of a data set were validation images when the model was trained.

    0 also where it was not trained on this data set.
    """
    split = _split_again(recognizer, path, kind=kind)
    return 0 if split is None or split.validation is None else len(split.validation)


def _split_again(
    recognizer: AnyRecognizer, path: Path, *, kind: str | None
) -> DataSplits | SceneSplits | None:
    """A data set as it was divided for the training; None if these are not its images."""
    known = recognizer.notes.get("data")
    if not isinstance(known, dict):
        return None
    limit = "train_images" if isinstance(recognizer, SceneRecognizer) else "train_per_class"
    share, seed, most = (known.get(name) for name in ("validation_share", "seed", limit))
    if not (isinstance(share, float) and 0 < share < 1 and type(seed) is int and seed >= 0):
        return None
    most = most if type(most) is int and most > 0 else None
    split: DataSplits | SceneSplits = _opening(recognizer)(
        path,
        kind=kind,
        validation_share=share,
        seed=seed,
        **{limit: most},
        **_coarse_of(recognizer),
    )
    is_the_same = split.train is not None and was_trained_on(recognizer, split.train)
    return split if is_the_same else None


def _coarse_of(recognizer: AnyRecognizer) -> dict[str, Any]:
    """How images get the coarse classes that a model was trained on; nothing for most models."""
    known = recognizer.notes.get("data")
    coarse = known.get("coarse") if isinstance(known, dict) else None
    return _coarse_options(coarse, recognizer.classes)


def _coarse_options(coarse: object, classes: Sequence[str]) -> dict[str, Any]:
    return {} if coarse is None else {"coarse": coarse, "coarse_known": tuple(classes)}


def _opening(recognizer: AnyRecognizer) -> Callable[..., Any]:
    return open_scenes if isinstance(recognizer, SceneRecognizer) else open_data


def was_trained_on(recognizer: AnyRecognizer, images: Images | Scenes) -> bool:
    """Whether these are the very images that the model was trained on."""
    known = recognizer.notes.get("data")
    return isinstance(known, dict) and known.get("fingerprint") == images.fingerprint()


def chosen_checkpoint(folder: Path) -> Path:
    """The best checkpoint of a run, or the last where nothing was validated."""
    restore_folder(folder / BEST)
    return folder / (BEST if (folder / BEST).is_dir() else LAST)


def kept_classifier(folder: Path, *, device: str) -> Recognizer:
    """Keeps the chosen checkpoint."""
    recognizer = load_classifier(chosen_checkpoint(folder), device=device)
    save(recognizer, folder / MODEL)  # so that it is there if the evaluation is interrupted
    return recognizer


def evaluated(
    recognizer: Recognizer,
    folder: Path,
    recipe: Recipe,
    sets: dict[str, Images],
    *,
    train: Images,
    seen: Features | None,
    on_bad_file: Callable[[BadFile], None],
) -> tuple[Result, ...]:
    """Evaluates the model of a run and keeps its figures with it.

    Args:
        recognizer: the model.
        folder: of the run.
        recipe: of the run.
        sets: what it is evaluated on.
        train: the training images, for what it has found of finer classes.
        seen: their features, if there are any yet.
        on_bad_file: is told of each file that could not be read.

    """
    results: list[Result] = []
    for name, images in sets.items():
        evaluation = evaluate(
            recognizer,
            images,
            batch_size=recipe.training.batch_size,
            workers=recipe.data.workers,
            on_bad_file=on_bad_file,
        )
        write_evaluation(evaluation, folder / "evaluation" / file_name(name))
        discovery = None
        if images.fine_labels is not None and train.fine_labels is not None:
            workers = recipe.data.workers
            if seen is None:  # once for all sets
                view = recognizer.preprocessing
                seen = features_of(recognizer.model, train, view, cache=None, workers=workers)
            found = discovered(recognizer, train, images, bank_features=seen, workers=workers)
            found.write(folder / "discovery" / file_name(name))
            discovery = found.discovery
        results.append(Result(name, evaluation, discovery))
        recognizer.notes.setdefault("results", {})[name] = evaluation.top1
    save(recognizer, folder / MODEL)
    return tuple(results)


def seen_by(
    recognizer: Recognizer, splits: DataSplits, *, workers: int | None
) -> tuple[Images, Features] | None:
    """The training images, of very many some, and what the finished model sees in them.

    None for a model that has no cases.
    """
    head = recognizer.model.head
    if not isinstance(head, SubCentroidHead):
        return None
    assert splits.train is not None
    images = at_most_per_class(splits.train, most_per_class(head.classes), seed=0)
    model, preprocessing = recognizer.model, recognizer.preprocessing
    return images, features_of(model, images, preprocessing, cache=None, workers=workers)


def settle_(recognizer: Recognizer, features: Features, folder: Path) -> None:
    """Puts the sub-centroids of a finished model on the means of its training images."""
    head = recognizer.model.head
    assert isinstance(head, SubCentroidHead)
    device = head.centroids.device
    head.settle(features.rows.to(device), features.labels.to(device))
    save(recognizer, folder / MODEL)


def described_cases(
    recognizer: Recognizer, splits: DataSplits, images: Images, features: Features, folder: Path
) -> dict[str, float]:
    """Keeps the cases of a model with it, as a table and a picture, and says how true they are."""
    head = recognizer.model.head
    assert isinstance(head, SubCentroidHead)
    found = Fidelity.of(head, features.rows, features.labels)
    recognizer = with_cases(recognizer, splits, features)
    save(recognizer, folder / MODEL)
    write_case_table(recognizer, folder / "cases.csv")
    with whole_file(folder / "cases.png") as unfinished:
        figure = gallery_figure(recognizer, images, features, found)
        figure.savefig(unfinished, dpi=110, format="png")
    return case_figures(head, found)


def case_figures(head: SubCentroidHead, found: Fidelity) -> dict[str, float]:
    """How true sub-centroids are to what they stand for, in figures."""
    cosines = found.cosine_to_mean[found.held > 0]
    figures: dict[str, float | None] = {
        "cosine_to_mean": float(cosines.mean()),
        "least_cosine_to_mean": float(cosines.amin()) if len(cosines) else math.nan,
        "agreement": found.agreement,
        "rival_cosine": float(found.rival_cosine[head.occupied].mean()),
        **health_figures(head, head.health()),
    }
    # Nothing may be right yet, and a single class has no rival, a single sub-centroid no pair.
    return {
        name: figure
        for name, figure in figures.items()
        if figure is not None and math.isfinite(figure)
    }


def write_results(
    folder: Path,
    results: Sequence[Result],
    rows: Sequence[Row],
    cases: dict[str, float],
) -> None:
    """Writes the figures of a run that is finished; the last thing that a run does."""
    last = rows[-1]
    epochs = {row.epoch: row.epoch_seconds for row in rows}  # the last row of each
    age = {} if last.memory_age is None else {"memory_age": last.memory_age}
    by_images = {
        result.images: {
            **_figures(result.evaluation),
            **({} if result.discovery is None else result.discovery.figures()),
        }
        for result in results
    }
    tree = {
        "results": by_images,
        "steps": last.step,
        "seconds": last.seconds,
        "seconds_per_step": sum(epochs.values()) / max(last.step, 1),
        "health": {**cases, **age},
        "made_with": {
            "dnc": __version__,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        },
    }
    with whole_file(folder / RESULTS) as unfinished:
        unfinished.write_text(json.dumps(tree, indent=1, allow_nan=False), encoding="utf-8")


def _figures(evaluation: Evaluation | PixelEvaluation) -> dict[str, object]:
    """The single numbers of an evaluation, as JSON knows them."""
    whole = evaluation.to_dict()
    if isinstance(evaluation, PixelEvaluation):
        pixels = ("images", "pixels", "miou", "mean_accuracy", "pixel_accuracy")
        return {name: whole[name] for name in (*pixels, "frequency_weighted_iou")}
    names = ("images", "top1", "top5", "mean_recall", "mean_loss")
    figures = {name: whole[name] for name in names}
    return {**figures, "calibration_error": whole["calibration"]["error"]}


def file_name(name: str) -> str:
    """What of a name can be the name of a file."""
    return "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in name)
