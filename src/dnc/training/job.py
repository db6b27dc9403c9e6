"""What a run does for its task; the order in which it is done is the same for all tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback

from dnc.data import BadFile, Splits
from dnc.evaluation import Evaluation, PixelEvaluation
from dnc.scene_recognition import AnyRecognizer
from dnc.training.discovering import Discovery
from dnc.training.loading import RunData
from dnc.training.module import TrainingModule
from dnc.training.recipe import Recipe


@dataclass(frozen=True)
class Result:
    """An evaluation and the images that it is of.

    Attributes:
        images: their name.
        evaluation: what is right and wrong.
        discovery: what was found of finer classes, if the images have such.
    """

    images: str
    evaluation: Evaluation | PixelEvaluation
    discovery: Discovery | None = None

    @property
    def success(self) -> float:
        """The one number that says most: top 1, or mIoU."""
        found = self.evaluation
        return found.miou if isinstance(found, PixelEvaluation) else found.top1


@dataclass(frozen=True)
class Finished:
    """What a finished run has come to.

    Attributes:
        results: on the test images if there are any, on the validation images, and on the further
            data sets of the recipe.
        cases: figures of the sub-centroids; none for a linear layer.
    """

    results: tuple[Result, ...]
    cases: dict[str, float]


class Job(ABC):
    """The part of a run that depends on its task.

    Args:
        recipe: all settings.
        splits: the images.

    """

    def __init__(self, recipe: Recipe, splits: Splits[Any]) -> None:
        self.recipe = recipe
        self.splits = splits

    @abstractmethod
    def new_recognizer(self) -> AnyRecognizer:
        """A model for the classes of the images."""

    @abstractmethod
    def resumed_recognizer(self, last: Path) -> AnyRecognizer:
        """The model of the run's last checkpoint."""

    @abstractmethod
    def prepare(self, recognizer: AnyRecognizer) -> None:
        """Looks for all that is needed later: what is not there should not end a run of days."""

    @abstractmethod
    def data(self, recognizer: AnyRecognizer) -> RunData[Any]:
        """The batches."""

    @abstractmethod
    def module(self, recognizer: AnyRecognizer) -> TrainingModule[Any]:
        """One step of training, and of validation."""

    @abstractmethod
    def callbacks(self) -> list[Callback]:
        """What happens at certain times of the run."""

    @abstractmethod
    def finish(
        self, folder: Path, *, device: str, on_bad_file: Callable[[BadFile], None]
    ) -> Finished:
        """Evaluates and describes the model that is kept; one process does it alone."""
