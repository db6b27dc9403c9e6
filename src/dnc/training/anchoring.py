"""Sub-centroids that are training images: in the last part of a run, or of a finished model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import nn

from dnc.centroids import SubCentroidHead
from dnc.data import DataSplits
from dnc.errors import InvalidModel
from dnc.models import Whitening
from dnc.recognition import Recognizer
from dnc.scene_recognition import AnyRecognizer
from dnc.training.casebase import with_cases
from dnc.training.checkpoint import MODEL, save
from dnc.training.features import Features
from dnc.training.left_out import fitted_temperature
from dnc.training.recipe import Recipe
from dnc.training.results import seen_by
from dnc.training.sections import AnchorChoice
from dnc.training.starting import start_from_images_
from dnc.training.tying import Shown, ShownImages, follow_images_, head_of, refresh_, tie_


class Anchoring(Callback):
    """Ties each sub-centroid to a training image before the last part of a run.

    From then on the head follows the images as they pass in batches, and at the end of each epoch,
    before it is validated and saved, all of them are looked at once more as they will be in
    evaluation.
    """

    def __init__(self, recipe: Recipe, shown_to: Callable[[Any], Shown]) -> None:
        """Takes what gives the training images as a recognizer is shown them."""
        self.recipe = recipe
        self.shown_to = shown_to
        self.is_fresh = False

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ties, in the first of the last epochs."""
        self.is_fresh = False
        if trainer.current_epoch == self.recipe.first_anchored_epoch:
            recognizer: AnyRecognizer = pl_module.recognizer  # type: ignore[assignment]
            shown = self.shown_to(recognizer)
            tie_(recognizer.model, shown, choice=self.recipe.head.anchor_choice)
            refresh_(recognizer.model, shown)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """What is validated is what is kept."""
        first = self.recipe.first_anchored_epoch
        if not self.is_fresh and first is not None and trainer.current_epoch >= first:
            shown = self.shown_to(pl_module.recognizer)
            refresh_(pl_module.evaluated, shown)  # type: ignore[arg-type]
            self.is_fresh = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """In epochs that are not validated."""
        self.on_validation_start(trainer, pl_module)


def refresh_kept_(recognizer: AnyRecognizer, shown: Shown, folder: Path) -> None:
    """Puts the sub-centroids of the model that is kept of a run on their images, and saves it.

    One process does it alone.
    """
    follow_images_(recognizer.model, shown)
    save(recognizer, folder / MODEL)


def anchored(
    recognizer: Recognizer,
    splits: DataSplits,
    *,
    choice: AnchorChoice,
    whitening: bool,
    workers: int | None,
) -> Recognizer:
    """The same model with each sub-centroid put on a training image; nothing is trained.

    The model of the recognizer that is given is changed.

    Args:
        recognizer: a model of sub-centroids.
        splits: the data that it was made from.
        choice: which images.
        whitening: whiten the features before, by the spread of the training images inside their
            classes, and fit the temperature of the probabilities to them.
        workers: processes that read images.

    """
    require_free_subcentroids(recognizer)
    shown = training_images(recognizer, splits, workers)
    if whitening:
        recognizer = _whitened(recognizer, shown)
    tie_(recognizer.model, shown, choice=choice)
    follow_images_(recognizer.model, shown)
    seen = seen_by(recognizer, splits, workers=workers)
    assert seen is not None
    if whitening:  # cosines of whitened features are lower
        head = head_of(recognizer.model)
        head.temperature = _temperature(head, seen[1])
    return with_cases(recognizer, splits, seen[1])


def require_free_subcentroids(recognizer: AnyRecognizer) -> None:
    """Raises unless there are sub-centroids that can be tied to images."""
    if recognizer.model.subcentroid_head.is_anchored:
        raise InvalidModel(
            "The sub-centroids of this model are tied to images already, so there is nothing left "
            "to do. Other images can be chosen for the model that it was made from."
        )


def _whitened(recognizer: Recognizer, shown: ShownImages) -> Recognizer:
    """The same model with whitened features; its sub-centroids are found anew in them."""
    model, network = recognizer.model, recognizer.network
    if not isinstance(model.centring, Whitening | nn.Identity):
        raise InvalidModel(
            "The features of this model are centred by batch statistics and cannot be whitened "
            "besides; do without whitening."
        )
    model.centring = Whitening(model.dim).to(recognizer.device)
    start_from_images_(model, shown.images, shown.preprocessing, workers=shown.workers)
    return replace(recognizer, network=network and replace(network, centring="whitened"))


@torch.no_grad()
def _temperature(head: SubCentroidHead, features: Features) -> float:
    """The temperature that suits training images best, without those that are cases."""
    has_case = head.occupied.any(dim=1).cpu()[features.labels]
    others = has_case & ~torch.isin(features.ids, head.ties.ids.cpu())
    if not others.any():
        return head.temperature
    device = head.centroids.device
    scores = head.eval()(features.rows[others].to(device)).cpu() * head.temperature
    return fitted_temperature(scores, features.labels[others])


def training_images(recognizer: Recognizer, splits: DataSplits, workers: int | None) -> ShownImages:
    """The training images as a classifier is shown them."""
    assert splits.train is not None
    return ShownImages(splits.train, recognizer.preprocessing, workers)
