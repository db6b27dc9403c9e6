"""Some rows of each class, drawn by lot: a batch of pixels has more than clustering needs."""

from jaxtyping import Int
from torch import Tensor

from dnc.centroids.segments import rank_in_class
from dnc.centroids.validation import Rows

# Odd numbers without a pattern in their bits: those of SplitMix64.
_SPREAD = -0x61C8864680B583EB
_FIRST, _SECOND = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def at_most_of_each_class(rows: Rows, most: int, *, seed: int, step: int) -> Rows:
    """At most so many rows of each class, in the order in which they come.

    Whether a row is drawn hangs on its image, its position, seed and step, not on where in a batch
    or in which process it is: what several processes have drawn, each from its own rows, holds all
    that is drawn from the rows of all.
    """
    if len(rows.labels) <= most:
        return rows
    lots = _mixed(_mixed(rows.ids * _SPREAD + rows.positions) ^ (seed * _SPREAD + step))
    order = lots.argsort(stable=True)
    drawn = rank_in_class(rows.labels[order]) < most
    return rows if drawn.all() else rows.where(drawn[order.argsort()])


def _mixed(numbers: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Each bit of a number changes about half of the result's bits; sums and products wrap."""
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        numbers = (numbers ^ ((numbers >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return numbers ^ ((numbers >> 31) & ((1 << 33) - 1))
