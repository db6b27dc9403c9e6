"""Reductions of rows by class, for all classes at once and in any order of the rows."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def class_counts(labels: Int[Tensor, " n"], classes: int) -> Int[Tensor, " c"]:
    """Number of rows of each class."""
    return torch.bincount(labels, minlength=classes)


def class_sum(
    values: Float[Tensor, "n k"], labels: Int[Tensor, " n"], classes: int
) -> Float[Tensor, "c k"]:
    """Sum of the values over the rows of each class."""
    sums = values.new_zeros(classes, values.shape[1])
    return sums.scatter_add_(0, labels[:, None].expand_as(values), values)


def class_max(
    values: Float[Tensor, "n k"], labels: Int[Tensor, " n"], classes: int
) -> Float[Tensor, "c k"]:
    """Largest value over the rows of each class; -inf for a class without rows."""
    largest = values.new_full((classes, values.shape[1]), -torch.inf)
    return largest.scatter_reduce_(0, labels[:, None].expand_as(values), values, "amax")


def class_argmax(
    values: Float[Tensor, "n k"], labels: Int[Tensor, " n"], classes: int
) -> Int[Tensor, "c k"]:
    """Row with the largest value in each class, the first one of equals; -1 if all are -inf."""
    rows = values.shape[0]
    is_largest = (values == class_max(values, labels, classes)[labels]) & (values > -torch.inf)
    candidates = torch.where(is_largest, torch.arange(rows, device=values.device)[:, None], rows)
    first = candidates.new_full((classes, values.shape[1]), rows)
    first.scatter_reduce_(0, labels[:, None].expand_as(candidates), candidates, "amin")
    return torch.where(first == rows, -1, first)


def class_logsumexp(
    values: Float[Tensor, "n k"], labels: Int[Tensor, " n"], classes: int
) -> Float[Tensor, "c k"]:
    """Logarithm of the sum of exponentials over the rows of each class; -inf where all are."""
    largest = class_max(values, labels, classes)
    # A column of -inf has nothing to take out; without this, -inf - -inf would be NaN.
    finite = torch.where(largest == -torch.inf, 0.0, largest)
    return (
        finite + class_sum((values - finite.index_select(0, labels)).exp_(), labels, classes).log_()
    )


def rank_in_class(labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Position of each row among the rows of its class, in the order in which they come."""
    order = labels.argsort(stable=True)
    ordered = labels[order]
    position = torch.arange(labels.shape[0], device=labels.device)
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    start = torch.where(begins, position, 0).cummax(0).values if position.numel() else position
    return torch.empty_like(position).scatter_(0, order, position - start)


def selection(classes: Int[Tensor, " t"]) -> slice | Int[Tensor, " t"]:
    """An index for ascending classes: a slice, which copies nothing, if they are consecutive."""
    first, last = int(classes[0]), int(classes[-1])
    return slice(first, last + 1) if last - first == len(classes) - 1 else classes
