"""Checkpoints: a folder of safetensors and JSON. Nothing in one is executed when it is loaded."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from dnc import __version__
from dnc.centroids import SubCentroidHead
from dnc.data import Preprocessing
from dnc.errors import DNCError, InvalidCheckpoint
from dnc.files import restore_folder, whole_folder
from dnc.models import Classifier, HeadSettings, backbone, classifier
from dnc.recognition import Network, Recognizer
from dnc.training.state import (
    read_json,
    read_state,
    read_tensors,
    tensor_shapes,
    write_state,
    write_tensors,
)

FORMAT = 1
DESCRIPTION, WEIGHTS, TRAINING = "model.json", "model.safetensors", "training"
BEST, LAST = Path("checkpoints/best"), Path("checkpoints/last")


class Description(BaseModel):
    """What `model.json` says; anything else in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    task: Literal["classification"] = "classification"
    classifier: Literal["dnc", "softmax"]
    network: Network
    head: HeadSettings
    classes: tuple[str, ...] = Field(min_length=1, max_length=10**6)
    preprocessing: dict[str, Any]
    notes: dict[str, Any] = Field(default_factory=dict)


def describe(recognizer: Recognizer) -> dict[str, Any]:
    """The description of a recognizer, for `model.json`."""
    if recognizer.network is None:
        raise InvalidCheckpoint(
            "This model is not built from a network that dnc knows by name, so it could not be "
            "built again from a file. Keep its state_dict instead."
        )
    versions = {name: version(name) for name in ("torch", "timm", "safetensors")}
    described = Description(
        classifier="dnc" if recognizer.model.is_dnc else "softmax",
        network=recognizer.network,
        head=head_settings(recognizer.model),
        classes=recognizer.classes,
        preprocessing=recognizer.preprocessing.to_dict(),
        notes={**recognizer.notes, "versions": {"dnc": __version__, **versions}},
    )
    return described.model_dump(mode="json")


def portable_weights(model: Classifier) -> dict[str, Tensor]:
    """Weights and sub-centroids, without the memory, which only training needs."""
    return {
        name: value
        for name, value in model.state_dict().items()
        if not name.startswith("head.memory.")
    }


def save(recognizer: Recognizer, path: Path | str) -> None:
    """Writes a portable checkpoint; what was there before stays until it is complete."""
    described = describe(recognizer)
    with whole_folder(Path(path)) as folder:
        _write_model(described, portable_weights(recognizer.model), folder)


def load(path: Path | str, *, device: torch.device | str = "cpu") -> Recognizer:
    """The recognizer of a checkpoint, or of a run's best checkpoint.

    Args:
        path: the folder of a checkpoint or of a run of `dnc train` or `dnc fit`.
        device: where the model goes.
    """
    folder = checkpoint_folder(Path(path))
    described = read_description(folder)
    shapes = tensor_shapes(folder / WEIGHTS)
    model = _built(described, shapes, folder)
    try:
        model.load_state_dict(read_tensors(folder / WEIGHTS))
    except RuntimeError as error:
        raise InvalidCheckpoint(
            f"{folder / WEIGHTS} does not fit the model that {DESCRIPTION} describes: {error}"
        ) from error
    return Recognizer(
        model=model.eval().to(device),
        network=described.network,
        classes=described.classes,
        preprocessing=_preprocessing(described, folder),
        notes=described.notes,
    )


def checkpoint_folder(path: Path) -> Path:
    """The folder of a checkpoint, given itself or the run it belongs to."""
    for folder in (path, path / "model", path / BEST, path / LAST):
        restore_folder(folder)
        if (folder / DESCRIPTION).is_file():
            return folder
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
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise InvalidCheckpoint(
            f"{folder / DESCRIPTION} is malformed: {place}: {first['msg']}."
        ) from error


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
    """Saves the last epoch of a run, and the best one by its accuracy on the validation images."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.best: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """The best accuracy so far."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from there."""
        self.best = state_dict["best"]

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Saves; a part of the work of every process, since each holds a share of the memory."""
        accuracy = trainer.callback_metrics.get("val/top1")
        is_best = accuracy is not None and (self.best is None or float(accuracy) > self.best)
        if is_best:
            self.best = float(accuracy)  # type: ignore[arg-type]
        last, best = self.folder / LAST, self.folder / BEST
        trainer.save_checkpoint(last)
        if is_best and trainer.is_global_zero:
            with whole_folder(best) as folder:
                for file in last.iterdir():
                    _link_or_copy(file, folder / file.name)


def _link_or_copy(file: Path, target: Path) -> None:
    """The same file under another name: it is never written to again, only replaced."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def _write_model(described: Mapping[str, Any], weights: Mapping[str, Tensor], folder: Path) -> None:
    text = json.dumps(described, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
    write_tensors(weights, folder / WEIGHTS)


def _preprocessing(described: Description, folder: Path) -> Preprocessing:
    try:
        return Preprocessing.from_dict(described.preprocessing)
    except DNCError as error:
        raise InvalidCheckpoint(f"{folder / DESCRIPTION}: preprocessing: {error}") from error


def _built(
    described: Description, shapes: Mapping[str, tuple[int, ...]], folder: Path
) -> Classifier:
    """The model without its weights, once it is certain that the file holds as many as it takes.

    A description can ask for a network of any size; the file's own shapes are the bound.
    """
    network, classes = described.network, len(described.classes)
    try:
        with torch.device("meta"):
            empty, info = backbone(network.name, image_size=network.size)
        expected = {f"backbone.{name}": tuple(t.shape) for name, t in empty.state_dict().items()}
        dim = network.projection or info.dim
        if network.projection is not None:
            expected["projection.weight"] = (dim, info.dim)
        if described.classifier == "softmax":
            expected["head.weight"] = (classes, dim)
        else:
            numbers = described.head.subcentroids
            k = numbers if isinstance(numbers, int) else max(numbers, default=0)
            expected["head.centroids"] = (classes, k, dim)
        for name, shape in expected.items():
            if shapes.get(name) != shape:
                raise InvalidCheckpoint(
                    f"{folder / WEIGHTS} has {name} of shape {shapes.get(name)}; {DESCRIPTION} "
                    f"asks for {shape}."
                )
        model, _ = classifier(
            network.name,
            classes,
            kind=described.classifier,
            head=HeadSettings(**{**asdict(described.head), "memory_rows": 0}),
            projection=network.projection,
            centring=network.centring,
            image_size=network.size,
        )
        return model
    except InvalidCheckpoint:
        raise
    except (DNCError, ValueError, RuntimeError, AssertionError, TypeError) as error:
        raise InvalidCheckpoint(f"{folder / DESCRIPTION} describes no model: {error}") from error


def head_settings(model: Classifier) -> HeadSettings:
    """The settings of a model's head, as they are kept with it."""
    head = model.head
    if not isinstance(head, SubCentroidHead):
        return HeadSettings()
    numbers = head.valid.sum(dim=1).tolist()
    return HeadSettings(
        subcentroids=numbers[0] if len(set(numbers)) == 1 else tuple(numbers),
        momentum=head.momentum,
        epsilon=head.epsilon,
        iterations=head.iterations,
        temperature=head.temperature,
        assign=head.assign.__name__,  # type: ignore[attr-defined]
        only_correct=head.only_correct,
        reseed_after=head.reseed_after,
    )
