"""Where the runs of studies are: each in a folder that is found by what the run depends on."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dnc.data import open_data
from dnc.errors import InvalidData
from dnc.study.definition import Run
from dnc.training.recipe import Recipe
from dnc.training.results import RESULTS

# Fields that change where or how fast a run is done, but not its result.
NEUTRAL = {
    "data": {"path", "workers", "store", "download", "check"},
    "training": {"accelerator", "devices", "nodes", "tensorboard"},
}


@dataclass(frozen=True)
class Place:
    """A run and its folder."""

    run: Run
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether the run is done: its results, written whole, are the last that it writes."""
        return (self.folder / RESULTS).is_file()

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


def places(runs: tuple[Run, ...], store: Path, images: str) -> tuple[Place, ...]:
    """The folder of each run; the same run of another study is in the same folder.

    `images` is the fingerprint of the data set.
    """
    found = []
    for run in runs:
        key = run_key(run.recipe, images)
        there = sorted(store.glob(f"*-{key}/"))
        words = re.sub(r"[^\w.]+", "-", f"{run.row} seed {run.seed}").strip("-.")[:80]
        found.append(Place(run, there[0] if there else store / f"{words}-{key}"))
    return tuple(found)


def run_key(recipe: Recipe, images: str) -> str:
    """A name for a run that changes with everything that its result depends on."""
    tree = recipe.model_dump(mode="json", exclude={"name": True, "about": True, **NEUTRAL})
    text = json.dumps([tree, images], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fingerprint(recipe: Recipe) -> str:
    """The images of a recipe, all of them, in 64 digits."""
    data = recipe.data
    splits = open_data(data.path or ".", kind=data.kind, validation_share=0.0, check=False)
    digest = hashlib.sha256()
    for name, images in splits.parts().items():
        digest.update(f"{name} {images.fingerprint()}\n".encode())
    return digest.hexdigest()
