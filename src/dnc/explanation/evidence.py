"""What speaks for a decision: the closest cases of the best classes, and how near they are."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dnc.centroids import class_scores, decide

CLASSES_SHOWN = 4


@dataclass(frozen=True)
class Contender:
    """The closest case of a class.

    Attributes:
        label: number of the class.
        subcentroid: which of its sub-centroids.
        similarity: cosine of the query to it.
        share: similarities of the contenders that are shown, divided by the temperature and
            normalised to a sum of 1.
    """

    label: int
    subcentroid: int
    similarity: float
    share: float


@dataclass(frozen=True)
class Evidence:
    """How one decision was reached.

    Attributes:
        contenders: the closest case of each of the best classes, best first; the first has won.
        margin: how much less similar the second is; None if no other class can win.
        probability: softmax over all classes at the class that has won.
        similarity: cosine of the query to every sub-centroid, those that cannot win included.
    """

    contenders: tuple[Contender, ...]
    margin: float | None
    probability: float
    similarity: Float[Tensor, "c k"]


def evidence(
    similarity: Float[Tensor, "n c k"],
    eligible: Bool[Tensor, "c k"],
    *,
    temperature: float,
    shown: int = CLASSES_SHOWN,
) -> list[Evidence]:
    """The evidence for the decision on each row.

    Args:
        similarity: cosines of the rows to all sub-centroids.
        eligible: sub-centroids that can win.
        temperature: cosines are divided by it before a softmax.
        shown: how many classes have a contender.
    """
    scores = class_scores(similarity, eligible)
    decision = decide(similarity, eligible)
    probability = (scores / temperature).softmax(dim=1)
    count = min(shown, int(eligible.any(dim=1).sum()))
    # A stable sort, so that of equal classes the lower number comes first, as in the decision.
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :count]
    place = similarity.masked_fill(~eligible, -torch.inf).argmax(dim=2)
    found = []
    for row, labels in enumerate(order.tolist()):
        best = scores[row, order[row]]
        shares = (best.double() / temperature).softmax(dim=0).tolist()
        contenders = tuple(
            Contender(label, int(place[row, label]), cosine, share)
            for label, cosine, share in zip(labels, best.tolist(), shares, strict=True)
        )
        has_rival = int(decision.rival_label[row]) >= 0
        found.append(
            Evidence(
                contenders=contenders,
                margin=float(decision.margin[row]) if has_rival else None,
                probability=float(probability[row, decision.label[row]]),
                similarity=similarity[row],
            )
        )
    return found
