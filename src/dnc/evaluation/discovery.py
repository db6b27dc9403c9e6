"""How much of finer classes, which nobody has labelled, is in features and in sub-centroids."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from sklearn.metrics import adjusted_mutual_info_score
from torch import Tensor

from dnc.evaluation.neighbours import nearest_neighbours, voted


@dataclass(frozen=True)
class Match:
    """How well sub-centroids match the finer classes inside the classes they were trained on.

    Attributes:
        purity: share of rows whose finer class is the most frequent one of their sub-centroid.
        least_purity: what it would be with one sub-centroid for each class.
        mutual_information: between sub-centroid and finer class, adjusted for chance: 0 for
            sub-centroids that know nothing of the finer classes, 1 for those that are them. The
            mean over the classes that have finer ones, each counted by its rows; None if none has.
    """

    purity: float
    least_purity: float
    mutual_information: float | None


def induction_accuracy(
    queries: Float[Tensor, "n d"],
    fine: Int[Tensor, " n"],
    bank: Float[Tensor, "m d"],
    fine_of_bank: Int[Tensor, " m"],
    *,
    neighbours: int = 1,
) -> float:
    """Share of queries that have the finer class of their nearest neighbours among training rows.

    The features come from a network that was trained on coarse classes alone (section "Experiments
    on Sub-Categories Discovery" of the paper).
    """
    found = nearest_neighbours(queries, bank, neighbours)
    classes = int(fine_of_bank.max()) + 1
    return float((voted(fine_of_bank[found.row], classes) == fine).double().mean())


def match(
    coarse: Int[Tensor, " n"], fine: Int[Tensor, " n"], subcentroid: Int[Tensor, " n"]
) -> Match:
    """How well the sub-centroids of rows match their finer classes; each coarse class by itself."""
    pure = least = divided = 0
    information = 0.0
    for number in coarse.unique():
        inside = coarse == number
        own, of = fine[inside], subcentroid[inside]
        pure += sum(_most_frequent(own[of == one]) for one in of.unique())
        least += _most_frequent(own)
        if len(own.unique()) > 1:  # there is nothing to know where all are of one finer class
            score = adjusted_mutual_info_score(own.cpu().numpy(), of.cpu().numpy())
            information += len(own) * float(score)
            divided += len(own)
    rows = max(1, len(coarse))
    return Match(pure / rows, least / rows, information / divided if divided else None)


def _most_frequent(labels: Int[Tensor, " n"]) -> int:
    """How often the most frequent label occurs."""
    return int(torch.bincount(labels).max())
