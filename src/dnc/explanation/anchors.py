"""Real training images in the place of sub-centroids."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from dnc.centroids import SubCentroidHead, normalised, similarity_to_own_class
from dnc.errors import InvalidLabels


@dataclass(frozen=True)
class Anchors:
    """A training row for each sub-centroid.

    Attributes:
        row: the row, or its id; -1 where there is none.
        similarity: its cosine to the sub-centroid; NaN where there is none.
    """

    row: Int[Tensor, "c k"]
    similarity: Float[Tensor, "c k"]


def anchors(head: SubCentroidHead, features: Tensor, labels: Tensor) -> Anchors:
    """The training images that stand for the sub-centroids of a head.

    Args:
        head: a head that has absorbed these images, or images like them.
        features: their features `(n d)`, from the network in evaluation mode.
        labels: their classes `(n)`.
    """
    rows = head.labelled_rows(features, labels)
    if len(rows.labels) != len(labels):
        raise InvalidLabels(
            f"{len(labels) - len(rows.labels)} labels are ignore_index; leave those rows out, so "
            "that the numbers of the others say which rows they are."
        )
    candidates = Candidates.of(head)
    candidates.add(rows.features, rows.labels, torch.arange(len(labels)))
    return candidates.distinct()


class Candidates:
    """The nearest rows of its class to each sub-centroid, gathered batch by batch.

    As many for each as its class has sub-centroids: in the best choice without a row twice, none
    needs a row beyond these, since the others can have taken all but one of them.

    Args:
        centroids: the sub-centroids.
        wanted: which of them look for a row.
        runners_up: how many more rows are kept for each.

    """

    def __init__(
        self,
        centroids: Float[Tensor, "c k d"],
        wanted: Bool[Tensor, "c k"],
        *,
        runners_up: int = 0,
    ) -> None:
        self.centroids = centroids.detach().cpu()
        self.wanted = wanted.cpu()
        c, k = wanted.shape
        self.ids = torch.full((c, k, k + runners_up), -1)
        self.similarity = torch.full(self.ids.shape, -torch.inf, dtype=self.centroids.dtype)

    @classmethod
    def of(cls, head: SubCentroidHead, *, runners_up: int = 0) -> "Candidates":
        """None yet, for the sub-centroids of a head that have ever absorbed a row."""
        return cls(head.centroids, head.occupied, runners_up=runners_up)

    def add(
        self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"], ids: Int[Tensor, " n"]
    ) -> None:
        """Takes in rows of any length with their classes and ids; no id may come twice."""
        labels, ids = labels.cpu(), ids.cpu()
        x = normalised(features.detach().cpu()).to(self.centroids.dtype)
        own = similarity_to_own_class(x, labels, self.centroids)
        for c in labels.unique().tolist():
            mine = labels == c
            to_class = own[mine].T
            self._keep_nearest(c, ids[mine].expand(to_class.shape), to_class)

    def add_candidates(self, ids: Int[Tensor, "c k m"], similarity: Float[Tensor, "c k m"]) -> None:
        """Takes in the candidates that another process has found among other rows."""
        for c in range(len(ids)):
            self._keep_nearest(c, ids[c], similarity[c])

    def distinct(self) -> Anchors:
        """Rows of the same class that are together nearest to its sub-centroids, no row twice.

        The largest sum of cosines is found as an assignment problem, one class after the other.
        With fewer rows than sub-centroids, those that would cost most stay without.
        """
        row = torch.full(self.wanted.shape, -1)
        cosine = torch.full(self.wanted.shape, torch.nan, dtype=self.similarity.dtype)
        for c in range(len(row)):
            places = self.wanted[c].nonzero()[:, 0]
            ids, similarity = self.ids[c, places], self.similarity[c, places]
            rows = ids[ids >= 0].unique()
            # What is in no list is worse than all that is, and any sum with it than any without.
            table = np.full((len(places), len(rows)), -1e6)
            for place in range(len(places)):
                known = ids[place] >= 0
                columns = torch.searchsorted(rows, ids[place, known])
                table[place, columns.numpy()] = similarity[place, known].numpy()
            chosen, column = linear_sum_assignment(table, maximize=True)
            row[c, places[chosen]] = rows[column]
            cosine[c, places[chosen]] = torch.from_numpy(table[chosen, column]).to(cosine.dtype)
        return Anchors(row, cosine)

    def _keep_nearest(
        self, c: int, ids: Int[Tensor, "k m"], similarity: Float[Tensor, "k m"]
    ) -> None:
        ids = torch.cat([self.ids[c], ids], dim=1)
        similarity = torch.cat([self.similarity[c], similarity], dim=1)
        # Of rows that are equally near those with lower ids, in whatever order they have come.
        by_id = ids.argsort(dim=1, stable=True)
        order = similarity.gather(1, by_id).argsort(dim=1, descending=True, stable=True)
        nearest = by_id.gather(1, order)[:, : self.ids.shape[2]]
        self.ids[c] = ids.gather(1, nearest)
        self.similarity[c] = similarity.gather(1, nearest)
