import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dnc.centroids import SubCentroidHead
from dnc.centroids.segments import Bags
from dnc.centroids.update import (
    ClusterMeans,
    cluster_means,
    directions,
    momentum_at,
    moved,
    nearest_rows,
    running_mean,
    seeded,
)
from tests.oracles import rows_on_sphere


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), max_size=30), st.booleans())
def test_cluster_means_match_a_loop(clusters, weighted):
    x = torch.randn(len(clusters), 6, dtype=torch.float64)
    cluster = torch.tensor(clusters, dtype=torch.long)
    weights = torch.rand(len(clusters), dtype=torch.float64) if weighted else None
    means = cluster_means(x, Bags.of(cluster, 5), weights=weights)
    for number in range(5):
        mine = cluster == number
        each = torch.ones(len(x)).double()[mine] if weights is None else weights[mine]
        torch.testing.assert_close(means.weight[number], each.sum())
        expected = (x[mine] * each[:, None]).sum(0) / each.sum() if mine.any() else torch.zeros(6)
        torch.testing.assert_close(means.mean[number], expected.double())


def test_rows_that_weigh_nothing_have_no_mean():
    bags = Bags.of(torch.tensor([0, 0]), 1)
    means = cluster_means(torch.ones(2, 3), bags, weights=torch.zeros(2))
    assert means.weight.tolist() == [0]
    assert means.mean.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.999, 1.0])
def test_move_is_the_normalised_blend_and_the_empty_stay_bit_for_bit(momentum):
    p = rows_on_sphere(6, 8).view(3, 2, 8)
    means = 0.5 * rows_on_sphere(6, 8, seed=1).view(3, 2, 8)
    occupied = torch.tensor([[True, False], [True, True], [False, False]])
    new = moved(p, means, occupied, momentum)
    blend = momentum * p + (1 - momentum) * means
    torch.testing.assert_close(new[occupied], (blend / blend.norm(dim=2, keepdim=True))[occupied])
    assert torch.equal(new[~occupied], p[~occupied])


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_pull_that_cancels_leaves_the_subcentroid_where_it_was(momentum):
    p = rows_on_sphere(1, 8).view(1, 1, 8)
    mean = torch.zeros_like(p) if momentum == 0 else -p
    assert torch.equal(moved(p, mean, torch.ones(1, 1, dtype=torch.bool), momentum), p)


def test_momentum_shrinks_the_distance_to_a_fixed_mean_geometrically():
    p, mean = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])
    everywhere = torch.ones(1, 1, dtype=torch.bool)
    for _ in range(400):
        p = moved(p, mean, everywhere, 0.9)
    torch.testing.assert_close(p, mean)


def test_running_mean_equals_the_mean_over_all_rows_ever_seen():
    x, cluster = torch.randn(60, 4, dtype=torch.float64), torch.arange(60) % 3
    so_far = ClusterMeans(torch.zeros(4, 4).double(), torch.zeros(4).double())
    for part in torch.arange(60).split(7):
        so_far = running_mean(so_far, cluster_means(x[part], Bags.of(cluster[part], 4)))
    at_once = cluster_means(x, Bags.of(cluster, 4))
    torch.testing.assert_close(so_far.mean, at_once.mean)
    torch.testing.assert_close(so_far.weight, at_once.weight)
    assert so_far.mean[3].tolist() == [0] * 4


def modes(count: int, rows_each: int, dim: int = 16, spread: float = 0.05) -> torch.Tensor:
    centres = torch.eye(dim)[:count].repeat_interleave(rows_each, 0)
    noise = spread * torch.randn(centres.shape, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.normalize(centres + noise, dim=1)


def test_seeds_fall_on_different_modes_whatever_the_order_of_the_rows():
    x = torch.cat([modes(4, 10), modes(4, 10).flip(1)])
    labels = torch.arange(2).repeat_interleave(40)
    none, wanted = torch.zeros(2, 4, dtype=torch.bool), torch.ones(2, 4, dtype=torch.bool)
    start = torch.zeros(2, 4, 16)
    seeds = seeded(start, none, wanted, x, labels)
    assert (labels[seeds.row] == torch.arange(2)[:, None]).all()
    assert torch.equal(seeds.centroids, x[seeds.row])
    for c in range(2):
        assert sorted((seeds.row[c] - 40 * c).div(10, rounding_mode="floor").tolist()) == [
            0,
            1,
            2,
            3,
        ]
    order = torch.randperm(80, generator=torch.Generator().manual_seed(1))
    shuffled = seeded(start, none, wanted, x[order], labels[order])
    torch.testing.assert_close(shuffled.centroids, seeds.centroids)


def test_seeding_leaves_placed_subcentroids_and_fills_the_uncovered_mode():
    x, labels = modes(3, 10), torch.zeros(30, dtype=torch.long)
    start = torch.stack([x[0], x[10], -x[0]])[None]
    placed = torch.tensor([[True, True, False]])
    seeds = seeded(start, placed, ~placed, x, labels)
    assert seeds.row[0, :2].tolist() == [-1, -1]
    assert 20 <= seeds.row[0, 2] < 30
    assert torch.equal(seeds.centroids[0, :2], start[0, :2])


def test_a_class_has_no_more_seeds_than_distinct_rows():
    x = torch.eye(4)[[0, 0, 1, 1, 1]]
    none, wanted = torch.zeros(2, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)
    seeds = seeded(torch.zeros(2, 3, 4), none, wanted, x, torch.zeros(5, dtype=torch.long))
    assert (seeds.row >= 0).tolist() == [[True, True, False], [False] * 3]


def test_a_zero_row_is_never_a_seed():
    x = torch.cat([torch.zeros(3, 4), torch.eye(4)[:2], torch.zeros(1, 4)])
    none, wanted = torch.zeros(2, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)
    labels = torch.tensor([0, 0, 0, 0, 0, 1])
    seeds = seeded(torch.zeros(2, 3, 4), none, wanted, x, labels)
    assert sorted(seeds.row[0].tolist()) == [-1, 3, 4]
    assert seeds.row[1].tolist() == [-1] * 3


def test_rows_that_cancel_have_no_direction():
    means = torch.tensor([[3.0, 4.0], [1e-9, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(
        directions(means), torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, 0.0]])
    )


def test_nearest_rows_are_of_the_same_class_and_nearest():
    x, labels = rows_on_sphere(30, 6), torch.arange(30) % 3
    p = rows_on_sphere(8, 6, seed=1).view(4, 2, 6)
    rows, cosine = nearest_rows(p, x, labels)
    for c in range(3):
        own = x[labels == c] @ p[c].T
        torch.testing.assert_close(cosine[c], own.amax(0))
        assert torch.equal(rows[c], own.argmax(0) * 3 + c)
    assert rows[3].tolist() == [-1, -1]


def older(steps, updates_per_step=1.0, **run):
    """Shares of a sub-centroid at the end of a run that are older than each of its steps."""
    moves = [1 - momentum_at(step, steps=steps, **run) for step in range(steps)]
    left = np.cumprod([1 - updates_per_step * move for move in reversed(moves)])[::-1]
    return np.array([*left, 1.0])


@pytest.mark.parametrize("steps", [100, 936, 9_360, 100_000])
def test_a_subcentroid_is_of_the_end_of_the_run_whatever_its_length(steps):
    left = older(steps, classes=10, rows=128)
    assert left[0] == pytest.approx(math.exp(-4.2), rel=0.01)
    assert 0.4 < left[round(0.95 * steps)] < 0.6
    assert left[round(0.6 * steps)] < 0.05


def test_a_class_that_is_seldom_seen_moves_faster_when_it_is():
    often = 1 - (1 - 1 / 1000) ** 128
    left = older(100_000, often, classes=1000, rows=128)
    assert left[0] == pytest.approx(math.exp(-4.2), rel=0.02)


@pytest.mark.parametrize(("classes", "k", "memory_rows"), [(10, 1, 0), (60, 1, 0), (60, 4, 1920)])
def test_little_of_the_start_is_left_at_the_end_of_a_run(classes, k, memory_rows):
    steps, rows = 200, 64
    head = SubCentroidHead(
        2 * classes, classes, subcentroids=k, memory_rows=memory_rows, only_correct=False
    )
    # Rows have a half of the dimensions, the start the other.
    head.centroids.zero_()[..., classes:] = torch.eye(classes)[:, None]
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        head.momentum = momentum_at(step, steps=steps, classes=classes, rows=rows)
        labels = torch.randint(classes, (rows,), generator=generator)
        noise = 0.01 * torch.rand(rows, classes, generator=generator)
        x = torch.nn.functional.one_hot(labels, classes) + noise
        head.absorb(torch.cat([x, torch.zeros(rows, classes)], dim=1), labels)
    left = head.centroids[..., classes:].norm(dim=-1)
    assert left.mean() < 0.04


def test_the_momentum_never_grows_and_short_runs_have_one_too():
    for steps in (1, 2, 7, 100):
        momenta = [momentum_at(step, steps=steps, classes=4, rows=9) for step in range(steps)]
        assert momenta == sorted(momenta, reverse=True)
        assert all(0 <= momentum < 1 for momentum in momenta)
