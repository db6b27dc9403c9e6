"""Training images chosen together, so that as cases they decide as well as they can.

The nearest image to a sub-centroid is only almost there, and each image errs in a direction of its
own: one that happens to be near to everything takes decisions away from the cases of other classes.
So the nearest images are where the choice begins; then one after the other gives way to another of
the nearest to its sub-centroid if that lowers the loss of the training images (Eq. 7).
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.centroids import class_scores, similarities
from dnc.centroids.similarity import query_blocks
from dnc.explanation.anchors import Anchors, Candidates

# Rounds over all sub-centroids. Few images are exchanged after the second.
MOST_ROUNDS = 5


def chosen_together(
    candidates: Candidates,
    x: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    ids: Int[Tensor, " n"],
    *,
    temperature: float,
) -> Anchors:
    """Images for the sub-centroids, none twice in a class, that decide other images well.

    Args:
        candidates: the nearest images to each sub-centroid, to choose from.
        x: features of length 1 of images that are to be decided well, all candidates among them.
        labels: their classes.
        ids: which images they are, none twice.
        temperature: cosines are divided by it in the loss.

    """
    row_of = {image: row for row, image in enumerate(ids.tolist())}
    row_of[-1] = -1
    nearest = candidates.distinct().row.tolist()
    cases = Cases(
        torch.tensor([[row_of[image] for image in of_class] for of_class in nearest]),
        x,
        labels,
        temperature=temperature,
    )
    for _ in range(MOST_ROUNDS):
        exchanged = [
            cases.exchange(c, k, [row_of[image] for image in candidates.ids[c, k].tolist()])
            for c, k in (cases.rows >= 0).nonzero().tolist()
        ]
        if not any(exchanged):
            break
    has_case, rows = cases.rows >= 0, cases.rows.clamp(min=0)
    cosine = (x[rows] * candidates.centroids).sum(dim=-1)
    return Anchors(torch.where(has_case, ids[rows], -1), cosine.masked_fill(~has_case, torch.nan))


class Cases:
    """Rows that are the cases of a classifier, and how well it does on all rows.

    Args:
        rows: which row is the case of each sub-centroid, -1 for none.
        x: all rows, of length 1.
        labels: their classes.
        temperature: cosines are divided by it.

    """

    def __init__(
        self,
        rows: Int[Tensor, "c k"],
        x: Float[Tensor, "n d"],
        labels: Int[Tensor, " n"],
        *,
        temperature: float,
    ) -> None:
        self.rows = rows
        self.x = x
        self.labels = labels
        self.temperature = temperature
        cases, has_case = x[rows.clamp(min=0)], rows >= 0
        scores = torch.cat(
            [class_scores(similarities(some, cases), has_case) for some in query_blocks(x, cases)]
        )
        # In double precision, so that one class can be taken out of the sum over all of them.
        self.scores: Float[Tensor, "n c"] = scores.double() / temperature
        self.total: Float[Tensor, " n"] = self.scores.logsumexp(dim=1)
        # Rows of a class without a case are decided wrongly by any choice.
        self.counted: Bool[Tensor, " n"] = has_case.any(dim=1)[labels]

    def exchange(self, c: int, k: int, others: list[int]) -> bool:
        """Puts the best of other rows in the place of a case, if the loss is lower with it.

        Rows below 0 are none; what is a case of the class already is left out.
        """
        of_class = self.rows[c].tolist()
        others = [row for row in others if row >= 0 and row not in of_class]
        siblings = [row for place, row in enumerate(of_class) if row >= 0 and place != k]
        each = [of_class[k], *others]
        scores = self._scores_with(each, siblings)
        of_other_classes = self._total_without(c)
        best = int(self._losses(c, each, scores, of_other_classes).argmin())
        if best > 0:
            self.rows[c, k] = each[best]
            self.scores[:, c] = scores[:, best]
            self.total = torch.logaddexp(of_other_classes, scores[:, best])
        return best > 0

    def _scores_with(self, each: list[int], siblings: list[int]) -> Float[Tensor, "n m"]:
        """Scores of a class with each of some rows as a case beside its other cases."""
        similarity = self.x @ self.x[each].T
        if siblings:
            to_siblings = (self.x @ self.x[siblings].T).amax(dim=1)
            similarity = torch.maximum(similarity, to_siblings[:, None])
        return similarity.double() / self.temperature

    def _total_without(self, c: int) -> Float[Tensor, " n"]:
        """Logarithm of the sum over all classes but one."""
        share = (self.scores[:, c] - self.total).exp().clamp(max=1.0)
        return self.total + torch.log1p(-share)

    def _losses(
        self,
        c: int,
        each: list[int],
        scores: Float[Tensor, "n m"],
        of_other_classes: Float[Tensor, " n"],
    ) -> Float[Tensor, " m"]:
        """Mean cross-entropy with each row as a case, over all rows but itself.

        Its own class is sure to be found for a row that is a case.
        """
        given = self.scores.gather(1, self.labels[:, None])
        own = torch.where((self.labels == c)[:, None], scores, given)
        losses = torch.logaddexp(of_other_classes[:, None], scores) - own
        counted = self.counted[:, None].repeat(1, len(each))
        counted[each, range(len(each))] = False
        return torch.where(counted, losses, 0.0).sum(dim=0) / counted.sum(dim=0).clamp(min=1)
