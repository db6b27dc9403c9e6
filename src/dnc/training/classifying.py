"""A run that trains a classifier of images."""

from collections.abc import Callable
from pathlib import Path

from lightning.pytorch import Callback

from dnc.data import BadFile, DataSplits, Images, open_data
from dnc.recognition import Recognizer
from dnc.scene_recognition import AnyRecognizer
from dnc.training.anchoring import Anchoring, refresh_kept_, training_images
from dnc.training.building import new_recognizer, recipe_in_truth, resumed_recognizer
from dnc.training.job import Finished, Job
from dnc.training.loading import ImageData
from dnc.training.module import ClassifierTraining
from dnc.training.recipe import Recipe
from dnc.training.results import (
    described_cases,
    evaluated,
    evaluation_sets,
    kept_classifier,
    seen_by,
    settle_,
)
from dnc.training.starting import ClustersOfData
from dnc.training.tying import ShownImages


class Classifying(Job):
    """Trains a classifier."""

    splits: DataSplits

    def __init__(self, recipe: Recipe, splits: DataSplits) -> None:
        super().__init__(recipe, splits)
        self.sets: dict[str, Images] = {}

    def new_recognizer(self) -> Recognizer:
        """A classifier, fresh or on the network of a checkpoint."""
        return self._known(new_recognizer(self.recipe, self.splits))

    def resumed_recognizer(self, last: Path) -> Recognizer:
        """The classifier of the last checkpoint, with room for the memory that is restored."""
        return self._known(resumed_recognizer(self.recipe, last))

    def prepare(self, recognizer: AnyRecognizer) -> None:
        """Opens the sets that it is evaluated on."""
        assert isinstance(recognizer, Recognizer)
        self.sets = evaluation_sets(self.recipe, self.splits, recognizer.classes, opened=open_data)

    def data(self, recognizer: AnyRecognizer) -> ImageData:
        """Batches of images."""
        assert isinstance(recognizer, Recognizer)
        return ImageData(self.recipe, self.splits, recognizer.preprocessing)

    def module(self, recognizer: AnyRecognizer) -> ClassifierTraining:
        """A row for each image."""
        assert isinstance(recognizer, Recognizer)
        return ClassifierTraining(recognizer, self.recipe)

    def callbacks(self) -> list[Callback]:
        """Clusters of data and anchoring, if the recipe asks for them."""
        made: list[Callback] = []
        head = self.recipe.head
        if head.start == "data" or (head.offline_every and self.recipe.model.classifier == "dnc"):
            made.append(ClustersOfData(self.recipe, self.splits))
        if self.recipe.first_anchored_epoch is not None:
            made.append(Anchoring(self.recipe, self._shown_to))
        return made

    def finish(
        self, folder: Path, *, device: str, on_bad_file: Callable[[BadFile], None]
    ) -> Finished:
        """Settles or anchors what is kept, evaluates it, and keeps its cases with it."""
        recipe, splits, workers = self.recipe, self.splits, self.recipe.data.workers
        recognizer = kept_classifier(folder, device=device)
        if recipe.first_anchored_epoch is not None:
            refresh_kept_(recognizer, self._shown_to(recognizer), folder)
        seen = seen_by(recognizer, splits, workers=workers)
        if seen is not None:
            for bad in seen[1].bad_files:
                on_bad_file(bad)
            if recipe.head.settle and recipe.first_anchored_epoch is None:
                settle_(recognizer, seen[1], folder)
        assert splits.train is not None
        whole = seen is not None and len(seen[0]) == len(splits.train)
        results = evaluated(
            recognizer,
            folder,
            recipe,
            self.sets,
            train=splits.train,
            seen=seen[1] if seen is not None and whole else None,
            on_bad_file=on_bad_file,
        )
        cases = {} if seen is None else described_cases(recognizer, splits, *seen, folder)
        return Finished(results, cases)

    def _shown_to(self, recognizer: Recognizer) -> ShownImages:
        return training_images(recognizer, self.splits, self.recipe.data.workers)

    def _known(self, recognizer: Recognizer) -> Recognizer:
        assert recognizer.network is not None
        self.recipe = recipe_in_truth(self.recipe, recognizer.network)
        return recognizer
