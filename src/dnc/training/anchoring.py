"""Sub-centroids tied to training images for the last part of a run (ad-hoc explainability)."""

from pathlib import Path

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer

from dnc.centroids import SubCentroidHead
from dnc.centroids.exchange import World, from_all
from dnc.data import DataSplits, Images, Preprocessing
from dnc.errors import InvalidModel
from dnc.explanation.anchors import Candidates
from dnc.models import Classifier
from dnc.recognition import Recognizer
from dnc.training.casebase import with_cases
from dnc.training.checkpoint import MODEL, save
from dnc.training.features import Features, feature_batches, in_evaluation
from dnc.training.recipe import Recipe
from dnc.training.results import seen_by


class Anchoring(Callback):
    """Ties each sub-centroid to its nearest training image before the last part of a run.

    From then on the head follows the images as they pass in batches, and at the end of each epoch,
    before it is validated and saved, all of them are looked at once more as they will be in
    evaluation.
    """

    def __init__(self, recipe: Recipe, splits: DataSplits) -> None:
        self.recipe = recipe
        self.splits = splits
        self.is_fresh = False

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ties, in the first of the last epochs."""
        self.is_fresh = False
        if trainer.current_epoch == self.recipe.first_anchored_epoch:
            recognizer: Recognizer = pl_module.recognizer  # type: ignore[assignment]
            tie_(recognizer.model, self._images, recognizer.preprocessing, self._workers)
            self._refresh_(pl_module, recognizer.model)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """What is validated is what is kept."""
        first = self.recipe.first_anchored_epoch
        if not self.is_fresh and first is not None and trainer.current_epoch >= first:
            self._refresh_(pl_module, pl_module.evaluated)  # type: ignore[arg-type]
            self.is_fresh = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """In epochs that are not validated."""
        self.on_validation_start(trainer, pl_module)

    @property
    def _images(self) -> Images:
        assert self.splits.train is not None
        return self.splits.train

    @property
    def _workers(self) -> int | None:
        return self.recipe.data.workers

    def _refresh_(self, pl_module: LightningModule, model: Classifier) -> None:
        recognizer: Recognizer = pl_module.recognizer  # type: ignore[assignment]
        refresh_(model, self._images, recognizer.preprocessing, self._workers)


def tie_(
    model: Classifier, images: Images, preprocessing: Preprocessing, workers: int | None
) -> None:
    """Ties the sub-centroids to the images that are nearest to them, no image twice in a class.

    Each process looks at its share of the images, and all come to the same choice.
    """
    head = _head_of(model)
    candidates = Candidates.of(head)
    with in_evaluation(model):
        for part in feature_batches(model, images, preprocessing, workers=workers, divided=True):
            candidates.add(part.rows, part.labels, part.ids)
    if World.current().size > 1:
        device = head.centroids.device
        ids, similarity = (
            from_all(own.to(device)).cpu() for own in (candidates.ids, candidates.similarity)
        )
        candidates = Candidates.of(head)
        for of_one in zip(ids, similarity, strict=True):
            candidates.add_candidates(*of_one)
    found = candidates.distinct()
    head.anchor(
        found.row.to(head.ties.ids.device),
        found.similarity.nan_to_num().to(head.ties.similarity),
    )


def refresh_(
    model: Classifier, images: Images, preprocessing: Preprocessing, workers: int | None
) -> None:
    """Puts all sub-centroids on what the network sees in their images in evaluation mode."""
    head = _head_of(model)
    found = _anchor_features(model, images, preprocessing, workers, divided=True)
    device = head.centroids.device
    head.absorb(*(part.to(device) for part in (found.rows, found.labels, found.ids)))


def refresh_kept_(
    recognizer: Recognizer, splits: DataSplits, folder: Path, *, workers: int | None
) -> None:
    """Does so for the model that is kept of a run, in one process alone, and saves it again."""
    model = recognizer.model
    assert splits.train is not None
    follow_images_(model, splits.train, recognizer.preprocessing, workers)
    save(recognizer, folder / MODEL)


def follow_images_(
    model: Classifier, images: Images, preprocessing: Preprocessing, workers: int | None
) -> None:
    """Puts all sub-centroids on their images, in one process alone."""
    head = _head_of(model)
    found = _anchor_features(model, images, preprocessing, workers, divided=False)
    device = head.centroids.device
    head.follow(*(part.to(device) for part in (found.rows, found.labels, found.ids)))


def anchored(recognizer: Recognizer, splits: DataSplits, *, workers: int | None) -> Recognizer:
    """The same model with each sub-centroid put on its nearest training image; nothing is trained.

    The model of the recognizer that is given is changed.
    """
    if not recognizer.model.is_dnc:
        raise InvalidModel(
            "This model ends in a linear layer, which has no sub-centroids to tie to images; "
            "`dnc train` with model.classifier=dnc makes one that has."
        )
    if _head_of(recognizer.model).is_anchored:
        raise InvalidModel("The sub-centroids of this model are tied to images already.")
    assert splits.train is not None
    given = splits.train, recognizer.preprocessing
    tie_(recognizer.model, *given, workers)
    follow_images_(recognizer.model, *given, workers)
    seen = seen_by(recognizer, splits, workers=workers)
    assert seen is not None
    return with_cases(recognizer, splits, seen[1])


def _anchor_features(
    model: Classifier,
    images: Images,
    preprocessing: Preprocessing,
    workers: int | None,
    *,
    divided: bool,
) -> Features:
    """Features of the images that sub-centroids are tied to, or of this process's share."""
    tied = _head_of(model).ties.ids.cpu().numpy()
    chosen = images.subset(np.flatnonzero(np.isin(images.ids, tied[tied >= 0])))
    with in_evaluation(model):
        return Features.joined(
            list(feature_batches(model, chosen, preprocessing, workers=workers, divided=divided))
        )


def _head_of(model: Classifier) -> SubCentroidHead:
    assert isinstance(model.head, SubCentroidHead)
    return model.head
