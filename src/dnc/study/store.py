"""Where the runs of studies are: each in a folder that is found by what the run depends on."""

import csv
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dnc.data import open_data
from dnc.errors import DNCError, InvalidData
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


def places(
    runs: tuple[Run, ...], store: Path, images_of: Callable[[Recipe], str]
) -> tuple[Place, ...]:
    """The folder of each run; the same run under another name or in another study has the same.

    Args:
        runs: of a study.
        store: where the folders are.
        images_of: a recipe's images as a short text, `fingerprint`.

    """
    prints: dict[tuple[object, ...], str] = {}
    folders: dict[str, Path] = {}
    found = []
    for run in runs:
        data = run.recipe.data
        where = (data.path, data.kind, data.evaluate_on)
        if where not in prints:
            prints[where] = images_of(run.recipe)
        key = run_key(run.recipe, prints[where])
        if key not in folders:
            there = sorted(store.glob(f"*-{key}/"), key=lambda folder: not _is_finished(folder))
            words = re.sub(r"[^\w.]+", "-", f"{run.row} seed {run.seed}").strip("-.")[:80]
            folders[key] = there[0] if there else store / f"{words}-{key}"
        found.append(Place(run, folders[key]))
    return tuple(found)


def run_key(recipe: Recipe, images: str) -> str:
    """A name for a run that changes with everything that its result depends on."""
    tree = recipe.model_dump(mode="json", exclude={"name": True, "about": True, **NEUTRAL})
    if recipe.model.classifier == "softmax":  # a linear layer has no sub-centroids
        head = tree.pop("head")
        tree["start"] = head["start_epoch"] if head["start"] == "data" else None
    for field in ("pretrained", "start_from"):
        if isinstance(tree["model"][field], str):
            tree["model"][field] = _contents(Path(tree["model"][field]))
    text = json.dumps([tree, images], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fingerprint(recipe: Recipe) -> str:
    """The images of a recipe, all of them, and those it is to be evaluated on, in 64 digits."""
    data = recipe.data
    path, kind = data.path or ".", data.kind
    sets = [open_data(path, kind=kind, validation_share=0, check=False, download=data.download)]
    for path, kind in map(data.named_set, data.evaluate_on):
        sets.append(open_data(path, kind=kind, validation_share=0, check=False))
    digest = hashlib.sha256()
    for splits in sets:
        for name, images in splits.parts().items():
            digest.update(f"{name} {images.fingerprint()}\n".encode())
    return digest.hexdigest()


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
