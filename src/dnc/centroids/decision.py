"""The decision: a query goes to the class of the nearest sub-centroid (Eq. 5)."""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.centroids.similarity import class_scores, query_blocks, similarities


@dataclass(frozen=True)
class Decision:
    """Who won, by how much, and against whom; each field has the shape of the queries.

    Attributes:
        label: class of the nearest sub-centroid.
        subcentroid: which sub-centroid of that class it is.
        similarity: cosine of the query to it.
        margin: how much less similar the nearest case of any other class is; infinite if no
            other class can win.
        rival_label: class of that nearest other case, -1 if there is none.
        rival_subcentroid: which of its sub-centroids, -1 if there is none.

    """

    label: Int[Tensor, "*rows"]
    subcentroid: Int[Tensor, "*rows"]
    similarity: Float[Tensor, "*rows"]
    margin: Float[Tensor, "*rows"]
    rival_label: Int[Tensor, "*rows"]
    rival_subcentroid: Int[Tensor, "*rows"]


def decide(cosine: Float[Tensor, "n c k"], eligible: Bool[Tensor, "c k"]) -> Decision:
    """The winner among all eligible sub-centroids and the best case of another class (Eq. 5).

    Equal similarities go to the lower class number, then to the lower sub-centroid number.
    """
    scores = class_scores(cosine, eligible)
    label = scores.argmax(dim=1)
    best = scores.gather(1, label[:, None])[:, 0]

    rival_scores = scores.scatter(1, label[:, None], -torch.inf)
    rival = rival_scores.argmax(dim=1)
    rival_best = rival_scores.gather(1, rival[:, None])[:, 0]
    no_rival = rival_best == -torch.inf

    def nearest_of(classes: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        rows = torch.arange(classes.shape[0], device=classes.device)
        of_class = cosine[rows, classes].masked_fill(~eligible[classes], -torch.inf)
        return of_class.argmax(dim=1)

    return Decision(
        label=label,
        subcentroid=nearest_of(label),
        similarity=best,
        margin=best - rival_best,
        rival_label=rival.masked_fill(no_rival, -1),
        rival_subcentroid=nearest_of(rival).masked_fill(no_rival, -1),
    )


def nearest_cases(
    x: Float[Tensor, "n d"], p: Float[Tensor, "c k d"], eligible: Bool[Tensor, "c k"]
) -> Decision:
    """Decisions for normalised rows, in blocks: no (n c k) tensor of many rows is made."""
    parts = [decide(similarities(block, p), eligible) for block in query_blocks(x, p)]
    return Decision(
        **{
            field.name: torch.cat([getattr(part, field.name) for part in parts])
            for field in fields(Decision)
        }
    )
