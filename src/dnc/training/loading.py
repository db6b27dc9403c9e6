"""The batches of a run, for each of its processes."""

from collections.abc import Iterator

from lightning.pytorch import LightningDataModule
from torch import device

from dnc.data import BadFile, Batch, DataSplits, Images, Loader, Preprocessing, loader
from dnc.data.disk import default_workers
from dnc.errors import InvalidRecipe
from dnc.training.recipe import Recipe


class Epochs:
    """The batches of a loader, told each time which epoch it is.

    Lightning asks for an iterator before it has restored how many epochs were completed; so the
    question is put when the first batch is asked for.
    """

    def __init__(self, batches: Loader, data: "RunData") -> None:
        self.batches = batches
        self.data = data

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the epoch that the trainer is at."""
        trainer = self.data.trainer
        assert trainer is not None
        self.batches.set_epoch(trainer.current_epoch)
        yield from self.batches

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return len(self.batches)


class RunData(LightningDataModule):
    """The parts of a data set as Lightning asks for them; `batch_size` is of all processes."""

    def __init__(self, recipe: Recipe, splits: DataSplits, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.recipe = recipe
        self.splits = splits
        self.preprocessing = preprocessing
        self.loaders: list[Loader] = []

    @property
    def bad_files(self) -> tuple[BadFile, ...]:
        """Files that were found unreadable while they were read, each once."""
        found = (bad for batches in self.loaders for bad in batches.bad_files)
        return tuple(dict.fromkeys(found))

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
        made = loader(
            images,
            self.preprocessing,
            batch_size=batch_size,
            augmentation=recipe.augment.augmentation() if training else None,
            shuffle=training,
            # A small last batch has poor statistics. In a large set nobody misses it, and it is of
            # other images the next time.
            drop_last=training and len(images) >= 10 * recipe.training.batch_size,
            seed=recipe.training.seed,
            rank=trainer.global_rank,
            world=trainer.world_size,
            workers=workers,
            store=recipe.data.store,
        )
        self.loaders.append(made)
        return made
