"""The rows of a bank that are nearest to a query, by cosine, however large the bank is."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dnc.centroids import normalised
from dnc.errors import InvalidData

# Queries and rows of the bank that are compared at once: 4 million similarities, 16 MB.
QUERIES = 256
ROWS = 16_384


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of a bank, the nearest first.

    Attributes:
        row: their places in the bank.
        similarity: their cosines to the query.
    """

    row: Int[Tensor, "n k"]
    similarity: Float[Tensor, "n k"]


@torch.no_grad()
def nearest_neighbours(
    queries: Float[Tensor, "n d"], bank: Float[Tensor, "m d"], k: int = 1
) -> Neighbours:
    """The `k` rows of a bank that have the largest cosine to each query.

    In blocks: beside its arguments it needs a bounded number of values, and no `(n m)` tensor. Of
    rows that are equally near any may come first.
    """
    if not 1 <= k <= len(bank):
        raise InvalidData(
            f"{k} neighbours were asked for, and the bank has {len(bank)} rows; ask for 1 to "
            f"{len(bank)}."
        )
    found = [_nearest(normalised(some), bank, k) for some in queries.split(QUERIES)]
    if not found:
        none = torch.zeros(0, k, device=bank.device)
        return Neighbours(none.long(), none)
    return Neighbours(
        torch.cat([one.row for one in found]), torch.cat([one.similarity for one in found])
    )


def _nearest(x: Float[Tensor, "n d"], bank: Float[Tensor, "m d"], k: int) -> Neighbours:
    best = Neighbours(
        torch.full((len(x), 0), -1, device=x.device), torch.zeros(len(x), 0, device=x.device)
    )
    for first in range(0, len(bank), ROWS):
        rows = normalised(bank[first : first + ROWS]).to(x.dtype)
        block = (x @ rows.mT).topk(min(k, len(rows)), dim=1)
        similarity = torch.cat([best.similarity.to(x.dtype), block.values], dim=1)
        row = torch.cat([best.row, first + block.indices], dim=1)
        nearest = similarity.topk(min(k, similarity.shape[1]), dim=1)
        best = Neighbours(row.gather(1, nearest.indices), nearest.values)
    return best


def voted(labels: Int[Tensor, "n k"], classes: int) -> Int[Tensor, " n"]:
    """The class that most of the neighbours have; of several the one with the lowest number."""
    votes = torch.zeros(len(labels), classes, dtype=torch.long, device=labels.device)
    return votes.scatter_add_(1, labels, torch.ones_like(labels)).argmax(dim=1)
