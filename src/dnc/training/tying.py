"""Ties the sub-centroids of a model to training images, and puts them there."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dnc.centroids import SubCentroidHead, normalised
from dnc.centroids.exchange import World, from_all, rows_of_all
from dnc.centroids.validation import Rows
from dnc.data import Images, Preprocessing
from dnc.data.splitting import at_most_per_class
from dnc.explanation.anchors import Candidates
from dnc.explanation.choosing import chosen_together
from dnc.models import Classifier, Segmenter
from dnc.training.features import Features, feature_batches, in_evaluation
from dnc.training.sections import AnchorChoice

Embedder = Classifier | Segmenter

# Images beside the nearest that may take its place, for each sub-centroid.
RUNNERS_UP = 4

# Training images by which images are chosen together; their features must fit into memory.
MOST_JUDGES = 50_000


@dataclass(frozen=True)
class ShownImages:
    """Training images, and how a model is shown them.

    Attributes:
        images: the images.
        preprocessing: how they become the model's input.
        workers: processes that read them.
    """

    images: Images
    preprocessing: Preprocessing
    workers: int | None

    def only(self, ids: NDArray[np.int64]) -> Self:
        """Those of the images that have one of these ids."""
        chosen = np.flatnonzero(np.isin(self.images.ids, ids))
        return replace(self, images=self.images.subset(chosen))

    def batches(self, model: Classifier, *, divided: bool) -> Iterator[Features]:
        """What the model sees in them in evaluation; `divided`, in this process's share of them."""
        with in_evaluation(model):
            yield from feature_batches(
                model, self.images, self.preprocessing, workers=self.workers, divided=divided
            )

    def features(self, model: Classifier, *, divided: bool) -> Features:
        """All of it."""
        return Features.joined(list(self.batches(model, divided=divided)))


class Shown(Protocol):
    """Images, or places in them, and how a model is shown them."""

    def only(self, ids: NDArray[np.int64]) -> Self:
        """Those with one of these ids."""

    def batches(self, model: Any, *, divided: bool) -> Iterator[Features]:
        """What the model sees in them in evaluation; `divided`, in this process's share of them."""

    def features(self, model: Any, *, divided: bool) -> Features:
        """All of it."""


def tie_(model: Embedder, shown: Shown, *, choice: AnchorChoice) -> None:
    """Ties the sub-centroids to images (or places) of their classes, none twice in a class.

    Each process looks at its share of the images, and all take the choice of the first.
    """
    head = head_of(model)
    if choice == "nearest":
        found = _candidates(model, shown, runners_up=0).distinct()
    else:
        assert isinstance(shown, ShownImages)
        assert isinstance(model, Classifier)
        candidates = _candidates(model, shown, runners_up=RUNNERS_UP)
        rows = _judging_rows(model, shown, candidates)
        found = chosen_together(candidates, *rows, temperature=head.temperature)
    ids, similarity = (own.to(head.centroids.device) for own in (found.row, found.similarity))
    if World.current().size > 1:  # processors of two kinds may not agree on the last digit
        ids, similarity = from_all(ids)[0], from_all(similarity)[0]
    head.anchor(ids, similarity.nan_to_num())


def refresh_(model: Embedder, shown: Shown) -> None:
    """Puts all sub-centroids on what the network sees in their images in evaluation mode.

    Each process looks at its share of the images.
    """
    head_of(model).absorb(*_anchor_features(model, shown, divided=True))


def follow_images_(model: Embedder, shown: Shown) -> None:
    """Does the same in one process alone."""
    head_of(model).follow(*_anchor_features(model, shown, divided=False))


def head_of(model: Embedder) -> SubCentroidHead:
    """The head of a model that has sub-centroids."""
    assert isinstance(model.head, SubCentroidHead)
    return model.head


def _candidates(model: Embedder, shown: Shown, *, runners_up: int) -> Candidates:
    """The nearest images of its class to each sub-centroid, among the images of all processes."""
    head = head_of(model)
    own = Candidates.of(head, runners_up=runners_up)
    for part in shown.batches(model, divided=True):
        own.add(part.rows, part.labels, part.ids)
    if World.current().size == 1:
        return own
    device = head.centroids.device
    ids, similarity = (from_all(found.to(device)).cpu() for found in (own.ids, own.similarity))
    candidates = Candidates.of(head, runners_up=runners_up)
    for of_one in zip(ids, similarity, strict=True):
        candidates.add_candidates(*of_one)
    return candidates


def _judging_rows(
    model: Classifier, shown: ShownImages, candidates: Candidates
) -> tuple[Tensor, Tensor, Tensor]:
    """Features, labels and ids of the candidates and of all training images, of many some."""
    most = -(-MOST_JUDGES // len(shown.images.classes))
    judges = at_most_per_class(shown.images, most, seed=0).ids
    wanted = np.concatenate([judges, candidates.ids.numpy().ravel()])
    found = shown.only(wanted).features(model, divided=True)
    device = head_of(model).centroids.device
    parts = (normalised(found.rows), found.labels, found.ids, torch.zeros_like(found.ids))
    own = Rows(*(part.to(device) for part in parts))
    rows = rows_of_all(lambda: own, device)
    return rows.features.cpu(), rows.labels.cpu(), rows.ids.cpu()


def _anchor_features(
    model: Embedder, shown: Shown, *, divided: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Features, labels and ids of the images (or places) that sub-centroids are tied to."""
    head = head_of(model)
    tied = head.ties.ids.cpu().numpy()
    found = shown.only(tied[tied >= 0]).features(model, divided=divided)
    device = head.centroids.device
    return found.rows.to(device), found.labels.to(device), found.ids.to(device)
