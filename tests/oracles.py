"""Slow and obvious versions of the algorithm, after the paper's pseudo-code (Algorithm 1).

They loop over classes and use the scores of every row against every sub-centroid. Where the
pseudo-code cannot be meant as printed (docs/algorithm.md says where), they do what it means.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot


def rows_on_sphere(
    rows: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(rows, dim, generator=generator, dtype=torch.float64), dim=1).to(
        dtype
    )


def online_clustering(scores: Tensor, epsilon: float, iterations: int) -> Tensor:
    """The transport plan of one class: scores (n k) to shares (n k), rows summing to 1."""
    rows, k = scores.shape
    plan = torch.exp((scores - scores.max()) / epsilon)
    plan /= plan.sum()
    for _ in range(iterations):
        plan /= plan.sum(dim=0, keepdim=True)
        plan /= k
        plan /= plan.sum(dim=1, keepdim=True)
        plan /= rows
    return plan * rows


def one_choice(plan: Tensor, scores: Tensor, tie: float = 1e-4) -> Tensor:
    """The largest share of each row; of equal shares, that of the most similar sub-centroid."""
    choice = []
    for shares, similarities in zip(plan.tolist(), scores.tolist(), strict=True):
        equals = [k for k, share in enumerate(shares) if share >= max(shares) * (1 - tie)]
        choice.append(max(equals, key=lambda k: similarities[k]))
    return torch.tensor(choice, dtype=torch.long)


@dataclass(frozen=True)
class Assigned:
    subcentroid: Tensor
    tied: Tensor


def assignment_by_loop(
    scores: Tensor,
    labels: Tensor,
    valid: Tensor,
    *,
    epsilon: float = 0.05,
    iterations: int = 3,
    tie: float = 1e-3,
) -> Assigned:
    """Sub-centroid of each row from the full scores (n c k), one class after the other."""
    assigned = torch.full_like(labels, -1)
    tied = torch.zeros_like(labels, dtype=torch.bool)
    for c in range(valid.shape[0]):
        mine = labels == c
        k = int(valid[c].sum())
        if mine.any():
            own = scores[mine, c, :k].double()
            plan = online_clustering(own, epsilon, iterations)
            assigned[mine] = plan.argmax(dim=1)
            if k > 1:
                first, second = plan.topk(2, dim=1).values.unbind(dim=1)
                tied[mine] = first - second < tie * first
    return Assigned(assigned, tied)


def updated_by_loop(
    centroids: Tensor,
    x: Tensor,
    labels: Tensor,
    valid: Tensor,
    *,
    momentum: float,
    epsilon: float = 0.05,
    iterations: int = 3,
    choose: Callable[[Tensor, Tensor], Tensor] = one_choice,
    averaged: Tensor | None = None,
) -> Tensor:
    """Sub-centroids after one update: full scores, then a loop over the classes.

    All rows are clustered; means are taken over those that are `averaged`, or all.
    """
    scores = torch.einsum("nd,ckd->nck", x, centroids)
    updated = centroids.clone()
    for c in range(len(centroids)):
        mine = labels == c
        if not mine.any():
            continue
        k = int(valid[c].sum())
        own = scores[mine, c, :k]
        plan = online_clustering(own, epsilon, iterations)
        chosen = one_hot(choose(plan, own), k).to(x.dtype)
        if averaged is not None:
            chosen *= averaged[mine, None]
        sums = chosen.T @ x[mine]
        counts = chosen.sum(dim=0)
        got = counts > 0
        mean = sums[got] / counts[got, None]
        old = centroids[c, :k][got]
        updated[c, :k][got] = normalize(momentum * old + (1 - momentum) * mean, dim=1)
    return updated
