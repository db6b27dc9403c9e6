"""The batches of a run, for each of its processes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lightning.pytorch import LightningDataModule
from torch import device

from dnc.data import (
    BadFile,
    Batch,
    DataSplits,
    Images,
    Loader,
    Preprocessing,
    SceneBatch,
    SceneLoader,
    ScenePreprocessing,
    SceneSplits,
    WholeScene,
    WholeScenes,
    loader,
    scene_loader,
    whole_scenes,
)
from dnc.data.disk import default_workers
from dnc.errors import InvalidRecipe
from dnc.training.recipe import WHOLE_BATCHES_FROM, Recipe

OneLoader = TypeVar("OneLoader", bound=Loader | SceneLoader | WholeScenes)


@dataclass(frozen=True)
class Share:
    """What one process of a run has of every batch.

    Attributes:
        batch_size: images of a batch.
        workers: processes that read for it.
        rank: its number.
        world: how many there are.
    """

    batch_size: int
    workers: int | None
    rank: int
    world: int


class Epochs:
    """The batches of a loader, told each time which epoch it is.

    Lightning asks for an iterator before it has restored how many epochs were completed; so the
    question is put when the first batch is asked for.
    """

    def __init__(self, batches: Loader | SceneLoader, data: "RunData[Any]") -> None:
        self.batches = batches
        self.data = data

    def __iter__(self) -> Iterator[Batch | SceneBatch]:
        """The batches of the epoch that the trainer is at."""
        trainer = self.data.trainer
        assert trainer is not None
        self.batches.set_epoch(trainer.current_epoch)
        yield from self.batches

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return len(self.batches)


class RunData(LightningDataModule, Generic[OneLoader]):
    """The parts of a data set as Lightning asks for them; `batch_size` is of all processes."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.loaders: list[OneLoader] = []

    @property
    def bad_files(self) -> tuple[BadFile, ...]:
        """Files that were found unreadable while they were read, each once."""
        found = (bad for batches in self.loaders for bad in batches.bad_files)
        return tuple(dict.fromkeys(found))

    @property
    def share(self) -> Share:
        """What this process has of every batch."""
        trainer, recipe = self.trainer, self.recipe
        assert trainer is not None
        batch_size, left = divmod(recipe.training.batch_size, trainer.world_size)
        if left or batch_size < 2:
            raise InvalidRecipe(
                f"training.batch_size is {recipe.training.batch_size} for {trainer.world_size} "
                "processes together; each needs the same number of images, two or more."
            )
        workers = recipe.data.workers
        if workers is None and trainer.num_devices > 1:  # they share the cores of the machine
            workers = max(1, default_workers() // trainer.num_devices)
        return Share(batch_size, workers, trainer.global_rank, trainer.world_size)

    def drops_last(self, images: int) -> bool:
        """Whether a last batch that is not full is left out."""
        return images >= WHOLE_BATCHES_FROM * self.recipe.training.batch_size


class ImageData(RunData[Loader]):
    """Batches of images with a label each."""

    def __init__(self, recipe: Recipe, splits: DataSplits, preprocessing: Preprocessing) -> None:
        super().__init__(recipe)
        self.splits = splits
        self.preprocessing = preprocessing

    def train_dataloader(self) -> Epochs:
        """Batches in an order that is drawn anew in each epoch, augmented."""
        assert self.splits.train is not None
        return Epochs(self._loader(self.splits.train, training=True), self)

    def val_dataloader(self) -> Loader | list[Loader]:
        """Batches of the validation images; none if there are none."""
        images = self.splits.validation
        return [] if images is None else self._loader(images, training=False)

    def transfer_batch_to_device(self, batch: Batch, to: device, dataloader_idx: int) -> Batch:
        """The batch on the device of the model."""
        return batch.to(to, non_blocking=True)

    def _loader(self, images: Images, *, training: bool) -> Loader:
        recipe, share = self.recipe, self.share
        made = loader(
            images,
            self.preprocessing,
            batch_size=share.batch_size,
            augmentation=recipe.augment.augmentation() if training else None,
            shuffle=training,
            drop_last=training and self.drops_last(len(images)),
            seed=recipe.training.seed,
            rank=share.rank,
            world=share.world,
            workers=share.workers,
            store=recipe.data.store,
        )
        self.loaders.append(made)
        return made


class SceneData(RunData[SceneLoader | WholeScenes]):
    """Batches of squares to train on, and whole scenes to validate on."""

    def __init__(
        self, recipe: Recipe, splits: SceneSplits, preprocessing: ScenePreprocessing
    ) -> None:
        super().__init__(recipe)
        self.splits = splits
        self.preprocessing = preprocessing

    def train_dataloader(self) -> Epochs:
        """Squares of all scenes in an order that is drawn anew in each epoch, varied."""
        scenes, recipe, share = self.splits.train, self.recipe, self.share
        assert scenes is not None
        made = scene_loader(
            scenes,
            self.preprocessing,
            batch_size=share.batch_size,
            augmentation=recipe.scene.augmentation(),
            shuffle=True,
            drop_last=self.drops_last(len(scenes)),
            seed=recipe.training.seed,
            rank=share.rank,
            world=share.world,
            workers=share.workers,
        )
        self.loaders.append(made)
        return Epochs(made, self)

    def val_dataloader(self) -> WholeScenes | list[WholeScenes]:
        """The validation scenes; none if there are none."""
        if self.splits.validation is None:
            return []
        share = self.share
        made = whole_scenes(
            self.splits.validation, workers=share.workers, rank=share.rank, world=share.world
        )
        self.loaders.append(made)
        return made

    def transfer_batch_to_device(
        self, batch: SceneBatch | WholeScene, to: device, dataloader_idx: int
    ) -> SceneBatch | WholeScene:
        """The batch on the device of the model; a whole scene is scaled first and stays here."""
        return batch if isinstance(batch, WholeScene) else batch.to(to, non_blocking=True)
