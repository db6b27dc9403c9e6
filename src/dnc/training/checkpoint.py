"""Checkpoints: a folder of safetensors and JSON. Nothing in one is executed when it is loaded."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import torch
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from pydantic import ValidationError
from torch import Tensor

from dnc import __version__
from dnc.centroids import SubCentroidHead
from dnc.data import Preprocessing, ScenePreprocessing
from dnc.errors import DNCError, InvalidCheckpoint, InvalidModel, InvalidSetting
from dnc.files import restore_folder, standing_folder, whole_folder
from dnc.models import Classifier, Segmenter, Views
from dnc.models.heads import settings_of
from dnc.recognition import Recognizer
from dnc.scene_recognition import AnyRecognizer, SceneRecognizer
from dnc.training.casebase import read_case_base, write_case_base
from dnc.training.rebuilding import Description, SceneDescription, fill_, rebuilt
from dnc.training.state import (
    read_json,
    read_state,
    read_tensors,
    tensor_shapes,
    write_state,
    write_tensors,
)

FORMAT = 1
# The memory, the classifier of deep supervision, and what pixels are contrasted by.
TRAINING_ONLY = ("head.memory.", "auxiliary.", "contrast.")
DESCRIPTION, WEIGHTS, TRAINING = "model.json", "model.safetensors", "training"
Prepared = TypeVar("Prepared", Preprocessing, ScenePreprocessing)
BEST, LAST, MODEL = Path("checkpoints/best"), Path("checkpoints/last"), Path("model")


def describe(recognizer: AnyRecognizer) -> dict[str, Any]:
    """The description of a recognizer, for `model.json`."""
    if recognizer.network is None:
        raise InvalidCheckpoint(
            "This model is not built from a network that dnc knows by name, so it could not be "
            "built again from a file. Keep its state_dict instead."
        )
    versions = {name: version(name) for name in ("torch", "timm", "safetensors")}
    scene = None
    if isinstance(recognizer, SceneRecognizer):
        scene = SceneDescription(
            decoder=recognizer.model.settings,
            output_stride=recognizer.output_stride,
            colours=recognizer.colours,
            window=recognizer.views.window,
        )
    try:
        return Description(
            task="segmentation" if scene else "classification",
            classifier=recognizer.model.kind,
            network=recognizer.network,
            head=settings_of(recognizer.model.head),
            classes=recognizer.classes,
            preprocessing=recognizer.preprocessing.to_dict(),
            scene=scene,
            notes={**recognizer.notes, "versions": {"dnc": __version__, **versions}},
        ).model_dump(mode="json")
    except ValueError as error:
        raise InvalidCheckpoint(
            f"This model cannot be described in a file: {_told(error)}. Notes must be what JSON "
            "can hold, and names must be Unicode."
        ) from error


def portable_weights(model: Classifier | Segmenter) -> dict[str, Tensor]:
    """Weights and sub-centroids, without what only training needs."""
    return {
        name: value
        for name, value in model.state_dict().items()
        if not name.startswith(TRAINING_ONLY)
    }


def save(recognizer: AnyRecognizer, path: Path | str) -> None:
    """Writes a portable checkpoint; what was there before stays until it is complete."""
    described = describe(recognizer)
    with whole_folder(Path(path)) as folder:
        _write_model(described, portable_weights(recognizer.model), folder)
        if recognizer.cases is not None:
            write_case_base(recognizer.cases, folder)


def load(path: Path | str, *, device: torch.device | str = "cpu") -> AnyRecognizer:
    """The recognizer of a checkpoint, or of a run's best: a `Recognizer` or a `SceneRecognizer`.

    Args:
        path: the folder of a checkpoint or of a run of `dnc train` or `dnc fit`.
        device: where the model goes.
    """
    place = _device(device)
    folder = checkpoint_folder(Path(path))
    described = read_description(folder)
    weights = folder / WEIGHTS
    shapes = tensor_shapes(weights)
    model = rebuilt(described, shapes, folder, file_bytes=weights.stat().st_size)
    fill_(model, read_tensors(weights), folder)
    head = model.head
    occupied = head.occupied if isinstance(head, SubCentroidHead) else None
    cases = read_case_base(folder, occupied=occupied)
    model.eval().to(place)
    if isinstance(model, Classifier):
        return Recognizer(
            model=model,
            network=described.network,
            classes=described.classes,
            preprocessing=_preprocessing(Preprocessing.from_dict, described, folder),
            notes=described.notes,
            cases=cases,
        )
    assert described.scene is not None
    return SceneRecognizer(
        model=model,
        network=described.network,
        output_stride=described.scene.output_stride,
        classes=described.classes,
        colours=described.scene.colours,
        preprocessing=_preprocessing(ScenePreprocessing.from_dict, described, folder),
        notes=described.notes,
        cases=cases,
        views=Views(window=described.scene.window),
    )


def load_classifier(path: Path | str, *, device: torch.device | str = "cpu") -> Recognizer:
    """The classifier of a checkpoint; an error if it holds a segmenter."""
    recognizer = load(path, device=device)
    if not isinstance(recognizer, Recognizer):
        raise InvalidModel(f"{path} is a segmenter, and this takes a classifier of whole images.")
    return recognizer


def load_segmenter(path: Path | str, *, device: torch.device | str = "cpu") -> SceneRecognizer:
    """The segmenter of a checkpoint; an error if it holds a classifier."""
    recognizer = load(path, device=device)
    if not isinstance(recognizer, SceneRecognizer):
        raise InvalidModel(f"{path} is a classifier of whole images, and this takes a segmenter.")
    return recognizer


def _device(device: torch.device | str) -> torch.device:
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        told = str(error).splitlines()[0]
        raise InvalidSetting(f"The device {device} cannot be used: {told}") from error
    return place


def checkpoint_folder(path: Path) -> Path:
    """The folder of a checkpoint, given itself or the run it belongs to."""
    for place in (path, path / MODEL, path / BEST, path / LAST):
        try:
            folder = standing_folder(place)
            if (folder / DESCRIPTION).is_file():
                return folder
        except OSError as error:
            raise InvalidCheckpoint(f"{place} cannot be read: {error.strerror}.") from error
    raise InvalidCheckpoint(
        f"{path} is no checkpoint: it has no {DESCRIPTION}, and no model/ or checkpoints/ that has "
        "one. Give the folder that `dnc train` or `dnc fit` has written."
    )


def read_description(folder: Path) -> Description:
    """What a checkpoint says of itself, checked."""
    tree = read_json(folder / DESCRIPTION)
    given = tree.get("format") if isinstance(tree, dict) else None
    if type(given) is int and given > FORMAT:
        raise InvalidCheckpoint(
            f"{folder} has format {given}; this version of dnc ({__version__}) reads formats up to "
            f"{FORMAT}. Install a newer dnc."
        )
    try:
        return Description.model_validate(tree)
    except ValidationError as error:
        raise InvalidCheckpoint(f"{folder / DESCRIPTION} is malformed: {_told(error)}.") from error


class CheckpointFolders(CheckpointIO):
    """Lets Lightning keep its training state in folders of safetensors and JSON."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        """Writes the model, which anyone can load, and beside it what only a resumed run needs."""
        rest = dict(checkpoint)
        model: Mapping[str, Any] = rest.pop("recognizer")
        with whole_folder(Path(path)) as folder:
            _write_model(model["description"], model["weights"], folder)
            write_state(rest, folder, TRAINING)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The training state."""
        restore_folder(Path(path))
        return read_state(Path(path), TRAINING)

    def remove_checkpoint(self, path: Any) -> None:
        """Removes a checkpoint of its own and nothing else."""
        folder = Path(path)
        for name in (DESCRIPTION, WEIGHTS, f"{TRAINING}.json", f"{TRAINING}.safetensors"):
            (folder / name).unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


class Checkpoints(Callback):
    """Saves the last epoch of a run, and the best one by its success on the validation images.

    Once sub-centroids are tied to images, only such epochs can be the best.
    """

    def __init__(
        self, folder: Path, *, metric: str = "top1", first_anchored_epoch: int | None = None
    ) -> None:
        self.folder = folder
        self.metric = metric
        self.first_anchored_epoch = first_anchored_epoch
        self.best: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """The best success so far."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from there."""
        self.best = state_dict["best"]

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Saves; a part of the work of every process, since each holds a share of the memory."""
        if trainer.current_epoch == self.first_anchored_epoch:
            self.best = None
        success = trainer.callback_metrics.get(f"val/{self.metric}")
        is_best = success is not None and (self.best is None or float(success) > self.best)
        if is_best:
            self.best = float(success)  # type: ignore[arg-type]
        last, best = self.folder / LAST, self.folder / BEST
        # The best first: if the process dies in between, the epoch is run and saved once more.
        trainer.save_checkpoint(best if is_best else last)
        if is_best and trainer.is_global_zero:
            with whole_folder(last) as folder:
                for file in best.iterdir():
                    _link_or_copy(file, folder / file.name)


def _told(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)[:500]
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or "the whole"
    return f"{place}: {first['msg']}"[:500]


def _link_or_copy(file: Path, target: Path) -> None:
    """The same file under another name: it is never written to again, only replaced."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def _write_model(described: Mapping[str, Any], weights: Mapping[str, Tensor], folder: Path) -> None:
    text = json.dumps(described, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        (folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
    except UnicodeEncodeError as error:
        raise InvalidCheckpoint(f"The notes of this model are not Unicode: {error}.") from error
    write_tensors(weights, folder / WEIGHTS)


def _preprocessing(
    read: Callable[[Mapping[str, Any]], Prepared], described: Description, folder: Path
) -> Prepared:
    try:
        return read(described.preprocessing)
    except (DNCError, OverflowError) as error:  # the latter for integers that no float can hold
        raise InvalidCheckpoint(f"{folder / DESCRIPTION}: preprocessing: {error}") from error
