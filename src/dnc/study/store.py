"""Where the runs of studies are: each in a folder that is found by what the run depends on."""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dnc.data import Splits, open_data, open_scenes
from dnc.data.coarse import FOLDERS, PUBLISHED, read_coarse_classes
from dnc.errors import DNCError, InvalidData, InvalidStudy
from dnc.study.definition import Run
from dnc.training.checkpoint import checkpoint_folder
from dnc.training.recipe import Recipe
from dnc.training.results import RESULTS

# Fields that change where or how fast a run is done, but not its result; the images themselves,
# wherever they are, are part of what a run is known by.
NEUTRAL: dict[str, set[str]] = {
    "data": {"path", "workers", "download", "check", "evaluate_on"},
    "training": {"accelerator", "tensorboard"},
}


@dataclass(frozen=True)
class Place:
    """A run and its folder."""

    run: Run
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether the run is done."""
        return _is_finished(self.folder)

    @property
    def results(self) -> dict[str, Any] | None:
        """What the run has come to; None while it is not finished."""
        try:
            with (self.folder / RESULTS).open(encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise InvalidData(
                f"{self.folder / RESULTS} is damaged ({error}); delete the folder to run it again."
            ) from error
        return found

    @property
    def log(self) -> Path:
        """What the run has printed."""
        return self.folder.with_name(self.folder.name + ".log")

    @property
    def epochs(self) -> int:
        """Epochs of the run that its table tells of; the last of them may still go on."""
        if self.finished:
            return self.run.recipe.training.epochs
        try:
            with (self.folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        except FileNotFoundError:
            return 0
        return int(rows[-1]["epoch"]) if rows else 0


@dataclass(frozen=True)
class Source:
    """The images of a recipe.

    Attributes:
        fingerprint: all of them, and those it is to be evaluated on, in 64 digits.
        sets: the sets that a run is evaluated on.
    """

    fingerprint: str
    sets: tuple[str, ...]

    @classmethod
    def of(cls, recipe: Recipe) -> "Source":
        """The images of a recipe as they are now."""
        data = recipe.data
        opened = _scenes if recipe.task == "segmentation" else _images
        sets = [opened(data.path or ".", data.kind, data.download)]
        parts = sets[0].parts()
        names = [name for name in ("test", "validation") if name in parts]
        if "validation" not in parts and data.validation_share:
            names.append("validation")
        for path, kind in map(data.named_set, data.evaluate_on):
            sets.append(opened(path, kind, False))
        digest = hashlib.sha256()
        for splits in sets:
            for name, images in splits.parts().items():
                digest.update(f"{name} {images.fingerprint()}\n".encode())
        return cls(digest.hexdigest(), (*names, *data.evaluate_on))


def _images(path: str, kind: str | None, download: bool) -> Splits[Any]:
    return open_data(path, kind=kind, validation_share=0, check=False, download=download)


def _scenes(path: str, kind: str | None, download: bool) -> Splits[Any]:
    assert not download, "a recipe of scenes cannot ask for it"
    return open_scenes(path, kind=kind, validation_share=0, check=False)


def places(
    runs: Sequence[Run],
    store: Path,
    source_of: Callable[[Recipe], Source] = Source.of,
    *,
    compared: str | None = None,
) -> tuple[Place, ...]:
    """The folder of each run; the same run under another name or in another study has the same.

    Args:
        runs: of a study.
        store: where the folders are.
        source_of: looks at the images of a recipe.
        compared: the images that the study compares by; an error if a run would have none.

    """
    sources: dict[tuple[object, ...], Source] = {}
    found = []
    for run in runs:
        data = run.recipe.data
        has_validation = data.validation_share > 0
        where = (run.recipe.task, data.path, data.kind, data.evaluate_on, has_validation)
        if where not in sources:
            sources[where] = source_of(run.recipe)
        source = sources[where]
        if compared is not None and compared not in source.sets:
            raise InvalidStudy(
                f"The study compares by {compared} images, and {data.path} has none. A run there "
                f"is evaluated on {' and '.join(source.sets) or 'nothing'}; say so by `images:`."
            )
        found.append(Place(run, _folder(run.recipe, store, run_key(run.recipe, source))))
    return tuple(found)


def _folder(recipe: Recipe, store: Path, key: str) -> Path:
    """Where a run is, or will be; no word of it is from a study, so that all agree on it."""
    there = sorted(store.glob(f"*-{key}/"), key=lambda folder: (not _is_finished(folder), folder))
    if there:
        return there[0]
    words = [recipe.model.network, recipe.model.classifier]
    if recipe.task == "segmentation":
        words.insert(0, recipe.segmenter.architecture)
    if recipe.model.classifier == "dnc" and isinstance(recipe.head.subcentroids, int):
        words.append(f"K-{recipe.head.subcentroids}")
    name = re.sub(r"[^\w.]+", "-", "-".join([*words, f"seed-{recipe.training.seed}"]))
    return store / f"{name}-{key}"


def run_key(recipe: Recipe, source: Source) -> str:
    """A name for a run that changes with everything that its result depends on."""
    # Without what is left out: a field that recipes gain later, and that these do not use, would
    # make their runs others.
    neutral: dict[str, Any] = {"name": True, "about": True, **NEUTRAL}
    tree = recipe.model_dump(mode="json", exclude=neutral, exclude_none=True)
    # Nor what is of the other task, or of a loss that has no weight.
    if recipe.task == "classification":
        del tree["segmenter"], tree["scene"]
    else:
        del tree["augment"]
        if not recipe.segmenter.contrast:
            del tree["segmenter"]["contrast_temperature"], tree["segmenter"]["contrast_pixels"]
    if recipe.model.classifier != "dnc":  # which has no sub-centroids
        head = tree.pop("head")
        tree["start"] = head["start_epoch"] if head["start"] == "data" else None
    if recipe.model.classifier in ("dnc", "softmax"):
        del tree["rival"]
    for field in ("pretrained", "start_from"):
        if isinstance(tree["model"].get(field), str):
            tree["model"][field] = _contents(Path(tree["model"][field]))
    coarse = recipe.data.coarse
    if coarse is not None and coarse not in (FOLDERS, PUBLISHED):
        tree["data"]["coarse"] = dict(sorted(read_coarse_classes(coarse).items()))
    text = json.dumps([tree, source.fingerprint], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _is_finished(folder: Path) -> bool:
    """Whether a run is done: its results, written whole, are the last that it writes."""
    return (folder / RESULTS).is_file()


def _contents(path: Path) -> str:
    """What is in a file of weights or a checkpoint; what is not there is told by the run."""
    try:
        files = [path] if path.is_file() else sorted(checkpoint_folder(path).glob("model.*"))
    except DNCError:
        return f"nothing at {path}"
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()
