import pytest
import torch

from dnc.centroids import (
    SubCentroidHead,
    close_directions,
    orthogonal_directions,
    positive_directions,
    random_directions,
)
from dnc.centroids.start import SPREAD

STARTS = [random_directions, orthogonal_directions, close_directions, positive_directions]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("classes", [1, 3, 50])
def test_a_start_is_of_length_one_and_follows_the_generator(start, k, classes):
    directions = start(classes, k, 20, generator=generator())
    assert directions.shape == (classes, k, 20)
    torch.testing.assert_close(directions.norm(dim=-1), torch.ones(classes, k))
    assert torch.equal(directions, start(classes, k, 20, generator=generator()))
    if classes * k > 1:  # one class alone has all dimensions
        assert not torch.equal(directions, start(classes, k, 20, generator=generator(1)))


@pytest.mark.parametrize("start", [close_directions, positive_directions])
def test_classes_that_start_close_are_at_right_angles(start):
    directions = start(12, 1, 20, generator=generator())[:, 0]
    torch.testing.assert_close(directions @ directions.T, torch.eye(12), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("classes", "dim"), [(10, 64), (10, 20), (3, 20)])
def test_no_subcentroid_of_a_positive_start_leans_towards_another_class(classes, dim):
    directions = positive_directions(classes, 4, dim, generator=generator())
    cosines = torch.einsum("ckd,bld->cbkl", directions, directions)
    assert (cosines[~torch.eye(classes, dtype=torch.bool)] == 0).all()
    apart = torch.cdist(directions, directions)[:, ~torch.eye(4, dtype=torch.bool)]
    assert apart.min() > 1e-3  # no two of a class are one


def test_with_more_classes_than_dimensions_blocks_of_them_are_at_right_angles():
    directions = close_directions(50, 1, 20, generator=generator())[:, 0]
    for block in directions.split(20):
        torch.testing.assert_close(block @ block.T, torch.eye(len(block)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("classes", "k"), [(3, 4), (5, 1), (6, 6)])
def test_subcentroids_that_start_orthogonal_are_at_right_angles_as_far_as_there_is_room(classes, k):
    directions = orthogonal_directions(classes, k, 12, generator=generator()).view(-1, 12)
    for block in directions.split(12):
        torch.testing.assert_close(block @ block.T, torch.eye(len(block)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("classes", "k"), [(3, 4), (12, 1), (50, 2), (500, 1)])
def test_a_positive_start_can_be_reached_behind_a_rectifier(classes, k):
    directions = positive_directions(classes, k, 12, generator=generator())
    assert (directions >= 0).all()
    used = directions[:, 0].sum(dim=0)  # no dimension is favoured
    assert used.max() - used.min() <= max(1, 0.2 * used.max())


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("classes", "dim"), [(10, 2), (10, 8), (10, 9), (100, 16), (500, 12)])
def test_no_two_classes_begin_in_the_same_direction(start, classes, dim):
    directions = start(classes, 1, dim, generator=generator())[:, 0]
    cosines = (directions @ directions.T).fill_diagonal_(0)
    assert cosines.max() < 1 - 1e-5 or (dim == 2 and cosines.max() < 1 - 1e-9)
    if dim >= 8 and classes <= 10:
        assert cosines.mean() < 0.5  # a network has something to learn by


@pytest.mark.parametrize("start", [close_directions, positive_directions])
def test_subcentroids_that_start_close_are_nearer_to_each_other_than_to_any_class(start):
    directions = start(10, 4, 64, generator=generator())
    within = torch.einsum("ckd,cld->ckl", directions, directions)
    assert within.min() > 1 / (1 + SPREAD**2) - 0.1
    others = torch.einsum("ckd,bld->cbkl", directions, directions)
    others = others[~torch.eye(10, dtype=torch.bool)]
    assert others.max() < within.min()


def test_a_head_begins_where_it_is_told():
    head = SubCentroidHead(8, 3, start=close_directions, generator=generator())
    assert torch.equal(head.centroids, close_directions(3, 4, 8, generator=generator()))
