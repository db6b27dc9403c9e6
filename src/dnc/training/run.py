"""`dnc train`: from a recipe and images to a trained, evaluated, portable model."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console

from dnc.data import BadFile, DataSplits, Images, SceneSplits, Splits, open_data, open_scenes
from dnc.data.coarse import coarse_text
from dnc.errors import InvalidData, InvalidRecipe
from dnc.files import restore_folder
from dnc.scene_recognition import AnyRecognizer
from dnc.training.checkpoint import LAST, CheckpointFolders, Checkpoints, read_description
from dnc.training.classifying import Classifying
from dnc.training.history import History
from dnc.training.job import Job, Result
from dnc.training.listing import read_set_aside, write_listing, write_set_aside
from dnc.training.loading import RunData
from dnc.training.progress import RunProgress
from dnc.training.recipe import Recipe
from dnc.training.results import write_results
from dnc.training.segmenting import Segmenting

RECIPE = "recipe.yaml"


@dataclass(frozen=True)
class RunReport:
    """What a run has come to.

    Attributes:
        folder: everything that was written.
        results: on the test images if there are any, else on the validation images, and on the
            further data sets of the recipe.
        set_aside: files that could not be read, each once.
        cosine_to_mean: of sub-centroids to the means of what they hold, on average, where there are
            any.
    """

    folder: Path
    results: tuple[Result, ...]
    set_aside: tuple[BadFile, ...]
    cosine_to_mean: float | None


def train(
    recipe: Recipe,
    folder: Path,
    *,
    console: Console,
    resume: bool = False,
) -> RunReport | None:
    """Trains by a recipe; None in all but the first of several processes.

    Args:
        recipe: all settings; `data.path` says where the images are.
        folder: for the run; it must not hold another one.
        console: where progress goes.
        resume: go on with the run in the folder.
    """
    first = getattr(rank_zero_only, "rank", 0) == 0
    _require_path(recipe)
    if first:
        _require_free(folder, resume=resume)
    _require_hardware(recipe)
    recipe = recipe.with_absolute_paths()
    seed_everything(recipe.training.seed, verbose=False)
    job = job_for(recipe, console if first else Console(quiet=True))
    last = folder / LAST
    restore_folder(last)
    resumed = resume and last.is_dir()
    if resumed:
        _require_same_data(job.splits, last)
    recognizer = job.resumed_recognizer(last) if resumed else job.new_recognizer()
    recipe = job.recipe
    job.prepare(recognizer)
    data = job.data(recognizer)
    module = job.module(recognizer)
    history = History(folder, warn=lambda text: console.print(f"Warning: {text}", style="yellow"))
    with _quiet_engine():
        callbacks = [history, RunProgress(console, history), SetAside(folder, data)]
        trainer = _trainer(recipe, folder, [*callbacks, *job.callbacks()])
        if first:
            folder.mkdir(parents=True, exist_ok=True)
            recipe.write(folder / RECIPE)
            write_listing(job.splits, folder / "files.csv")
            console.print(_summary(recognizer, job), highlight=False)
        trainer.fit(module, data, ckpt_path=last if resumed else None)
    if not trainer.is_global_zero:
        return None
    found: list[BadFile] = [*job.splits.set_aside, *SetAside.found(folder)]
    device = str(trainer.strategy.root_device)
    finished = job.finish(folder, device=device, on_bad_file=found.append)
    set_aside = tuple(dict.fromkeys(found))
    write_set_aside(set_aside, folder / "set-aside.csv")
    SetAside.remove(folder)
    write_results(folder, finished.results, history.rows, finished.cases)
    cosine_to_mean = finished.cases.get("cosine_to_mean")
    return RunReport(folder, finished.results, set_aside, cosine_to_mean)


def job_for(recipe: Recipe, console: Console) -> Job:
    """What is to be done by a recipe, with its images; how many were set aside is told."""
    if recipe.task == "segmentation":
        scenes = opened_scenes(recipe, console)
        assert scenes.train is not None
        return Segmenting(recipe.with_epochs_for(len(scenes.train)), scenes)
    return Classifying(recipe, opened(recipe, console))


def opened_scenes(recipe: Recipe, console: Console) -> SceneSplits:
    """The recipe's scenes; which were set aside is told."""
    settings = recipe.data
    with console.status("looking at the masks") as status:
        splits = open_scenes(
            settings.path or ".",
            kind=settings.kind,
            validation_share=settings.validation_share,
            seed=recipe.training.seed,
            train_images=settings.train_images,
            check=settings.check,
            on_progress=lambda done, total: status.update(
                f"looking at the masks: {done:,} of {total:,}"
            ),
        )
    _require_training(splits, settings.path)
    _tell_set_aside(splits, console)
    return splits


def opened(recipe: Recipe, console: Console) -> DataSplits:
    """The recipe's images; how many files were set aside is told."""
    settings = recipe.data
    splits = open_data(
        settings.path or ".",
        kind=settings.kind,
        validation_share=settings.validation_share,
        seed=recipe.training.seed,
        train_per_class=settings.train_per_class,
        coarse=settings.coarse,
        download=settings.download,
        check=settings.check,
    )
    _require_training(splits, settings.path)
    _tell_set_aside(splits, console)
    return splits


def _require_training(splits: Splits[Any], path: str | None) -> None:
    if splits.train is None or not len(splits.train):
        raise InvalidData(
            f"{path} ({splits.kind}) has no training images; it can be evaluated on, but not "
            "trained on."
        )


def _tell_set_aside(splits: Splits[Any], console: Console) -> None:
    for bad in splits.set_aside:
        told = f"Set aside: {bad.path}: {bad.reason}"
        console.print(told, style="yellow", markup=False, soft_wrap=True)


def _require_path(recipe: Recipe) -> None:
    if recipe.data.path is None and recipe.data.kind != "digits":
        raise InvalidRecipe("No images are given; say where they are: dnc train DATA.")


def _require_free(folder: Path, *, resume: bool) -> None:
    if resume and not (folder / RECIPE).is_file():
        raise InvalidRecipe(f"{folder} holds no run to resume: it has no {RECIPE}.")
    if folder.exists() and not folder.is_dir():
        raise InvalidRecipe(f"{folder} is a file; give a folder with --output.")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise InvalidRecipe(
            f"{folder} is there already. Go on with the run in it by --resume {folder}, or give "
            "another folder with --output."
        )


def _require_same_data(splits: Splits[Any], last: Path) -> None:
    data = read_description(last).notes.get("data")
    known = data.get("fingerprint") if isinstance(data, dict) else None
    assert splits.train is not None
    if known != splits.train.fingerprint():
        raise InvalidData(
            "The training images have changed since the run was interrupted, so it cannot go on "
            "as the same run. Put them back, or start another with --from and the checkpoint."
        )


class SetAside(Callback):
    """Collects the files that the processes of a run could not read, through small files.

    They are there until the run ends: what was found before an interruption is not lost.
    """

    def __init__(self, folder: Path, data: RunData[Any]) -> None:
        self.folder = folder
        self.data = data

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Adds to this process's share."""
        share = self.folder / f"set-aside-{trainer.global_rank}.csv"
        found = dict.fromkeys([*read_set_aside(share), *self.data.bad_files])
        write_set_aside(tuple(found), share)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Waits for the others' shares."""
        trainer.strategy.barrier()

    @classmethod
    def found(cls, folder: Path) -> list[BadFile]:
        """What all have found."""
        return [bad for share in cls._shares(folder) for bad in read_set_aside(share)]

    @classmethod
    def remove(cls, folder: Path) -> None:
        """Removes the shares, once what is in them is written elsewhere."""
        for share in cls._shares(folder):
            share.unlink(missing_ok=True)

    @staticmethod
    def _shares(folder: Path) -> list[Path]:
        return sorted(folder.glob("set-aside-*.csv"))


def _on_gpus(recipe: Recipe) -> bool:
    return recipe.training.accelerator in ("auto", "gpu") and torch.cuda.is_available()


def _trainer(recipe: Recipe, folder: Path, callbacks: list[Callback]) -> Trainer:
    settings = recipe.training
    devices = settings.devices
    if devices == "auto":
        devices = torch.cuda.device_count() if _on_gpus(recipe) else 1
    several = devices > 1 or settings.nodes > 1
    if several and settings.sync_norms and not _on_gpus(recipe):
        raise InvalidRecipe("training.sync_norms is for GPUs; set it to false on CPUs.")
    return Trainer(
        accelerator=settings.accelerator,
        devices=devices,
        num_nodes=settings.nodes,
        strategy="ddp" if several else "auto",
        precision=settings.precision,
        sync_batchnorm=settings.sync_norms and several,
        max_epochs=settings.epochs,
        accumulate_grad_batches=settings.accumulate,
        gradient_clip_val=recipe.optimizer.clip,
        check_val_every_n_epoch=settings.validate_every,
        num_sanity_val_steps=0,
        callbacks=[
            *callbacks,
            Checkpoints(
                folder, metric=recipe.metric, first_anchored_epoch=recipe.first_anchored_epoch
            ),
        ],
        plugins=[CheckpointFolders()],
        logger=_loggers(folder) if settings.tensorboard else False,
        default_root_dir=folder,
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _summary(recognizer: AnyRecognizer, job: Job) -> str:
    recipe, splits = job.recipe, job.splits
    images = ", ".join(f"{len(part):,} {name}" for name, part in splits.parts().items())
    assert recognizer.network is not None
    parameters = sum(p.numel() for p in recognizer.model.parameters())
    network = recognizer.network.name
    if recipe.task == "segmentation":
        network = f"{recipe.segmenter.architecture} on {network}"
    train = splits.train
    classes = f"{len(splits.classes)} classes"
    if isinstance(train, Images) and train.fine_labels is not None:
        classes = coarse_text(train)
    return (
        f"{recipe.name}: {images} images of {classes}; "
        f"{network}, {recipe.model.classifier}, {parameters / 1e6:.2f} M parameters"
    )


def _loggers(folder: Path) -> list[TensorBoardLogger]:
    try:
        return [TensorBoardLogger(folder, name="", version="tensorboard")]
    except ModuleNotFoundError as error:
        raise InvalidRecipe(
            "training.tensorboard needs TensorBoard; install it with "
            "pip install 'deep-nearest-centroids[tensorboard]', or leave the field out."
        ) from error


def _require_hardware(recipe: Recipe) -> None:
    wanted = recipe.training.accelerator
    missing = {
        "gpu": not torch.cuda.is_available(),
        "mps": not torch.backends.mps.is_available(),
    }
    if missing.get(wanted):
        raise InvalidRecipe(
            f"training.accelerator is {wanted}, which this machine has not (or not for this build "
            "of torch); auto takes what there is."
        )
    if torch.backends.mps.is_available() and recipe.training.devices not in ("auto", 1):
        raise InvalidRecipe("training.devices must be 1 on a Mac.")


@contextmanager
def _quiet_engine() -> Iterator[None]:
    """Lightning's remarks on hardware, workers and tips do not help the users of a command."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
