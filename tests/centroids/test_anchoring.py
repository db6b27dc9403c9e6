"""Sub-centroids that are tied to images."""

import copy

import pytest
import torch

from dnc import SubCentroidHead
from dnc.centroids.similarity import normalised
from dnc.errors import InvalidLabels, InvalidSetting
from tests.oracles import rows_on_sphere

CLASSES, K, DIM = 3, 2, 5


def anchored_head(**settings):
    head = SubCentroidHead(
        DIM, CLASSES, subcentroids=K, generator=torch.Generator().manual_seed(0), **settings
    )
    head.absorb(rows_on_sphere(30, DIM), torch.arange(30) % CLASSES, torch.arange(30))
    head.anchor(torch.tensor([[0, 3], [1, 4], [2, -1]]), torch.full((CLASSES, K), 0.9))
    return head


def test_a_subcentroid_is_the_feature_of_its_image_whenever_that_passes():
    head = anchored_head()
    before = head.centroids.clone()
    x = torch.randn(3, DIM)
    # Image 3 is of class 0; image 4 comes with another label than its own, 77 is nobody's.
    head.absorb(x, torch.tensor([0, 0, 1]), torch.tensor([3, 4, 77]))
    torch.testing.assert_close(head.centroids[0, 1], normalised(x[0]))
    before[0, 1] = head.centroids[0, 1]
    assert torch.equal(head.centroids, before)


def test_of_an_image_that_comes_twice_the_last_row_counts():
    head = anchored_head()
    x = torch.randn(4, DIM)
    head.absorb(x, torch.tensor([0, 1, 0, 0]), torch.tensor([0, 1, 0, 9]))
    torch.testing.assert_close(head.centroids[0, 0], normalised(x[2]))


def test_an_image_is_followed_even_where_it_is_classified_wrongly():
    head = anchored_head(only_correct=True)
    wrong = head.centroids[1, 0].clone()[None]
    head.absorb(wrong, torch.tensor([0]), torch.tensor([0]))
    torch.testing.assert_close(head.centroids[0, 0], wrong[0])


def test_rows_without_an_id_move_nothing():
    head = anchored_head()
    before = copy.deepcopy(head.state_dict())
    head.absorb(torch.randn(6, DIM), torch.arange(6) % CLASSES)
    for name, value in head.state_dict().items():
        assert name == "steps" or torch.equal(value, before[name]), name


def test_a_subcentroid_without_an_image_can_neither_win_nor_take_part_in_the_loss():
    head = anchored_head()
    # In the direction of the place without an image.
    row = head.centroids[2, 1].clone()[None]
    others = (head.centroids @ row[0]).masked_fill(~head.occupied, -torch.inf)
    assert not head.occupied[2, 1]
    assert head.decide(row).similarity == others.max()
    moved = copy.deepcopy(head)
    moved.centroids[2, 1] = -moved.centroids[2, 1]
    assert torch.equal(moved.train()(row), head.train()(row))


def test_one_process_follows_alone():
    head, other = anchored_head(), anchored_head()
    x, labels, ids = torch.randn(5, DIM), torch.tensor([0, 1, 2, 0, 1]), torch.arange(5)
    head.follow(x, labels, ids)
    other.absorb(x, labels, ids)
    assert torch.equal(head.centroids, other.centroids)
    tied = torch.stack([normalised(x)[[0, 3]], normalised(x)[[1, 4]]])
    torch.testing.assert_close(head.centroids[:2], tied)


def test_tied_subcentroids_are_clustered_no_more():
    head = anchored_head(memory_rows=9)
    for forbidden in (
        head.recluster,
        lambda: head.settle(torch.randn(3, DIM), torch.arange(3)),
        lambda: head.start_from(torch.randn(3, DIM), torch.arange(3)),
    ):
        with pytest.raises(InvalidSetting, match="tied to images"):
            forbidden()


def test_the_state_remembers_what_is_tied_to_what():
    head = anchored_head()
    other = SubCentroidHead(DIM, CLASSES, subcentroids=K)
    other.load_state_dict(head.state_dict())
    assert other.is_anchored
    assert torch.equal(other.ties.ids, head.ties.ids)
    torch.testing.assert_close(other.ties.similarity[0, 0], torch.tensor(0.9))


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([[0, 1]], "shapes"),
        ([[0, 0], [1, 2], [3, 4]], "two sub-centroids of a class, in classes 0"),
        ([[-1, -1]] * 3, "at least one"),
    ],
)
def test_anchors_that_cannot_be_are_refused(ids, told):
    head = SubCentroidHead(DIM, CLASSES, subcentroids=K)
    ids = torch.tensor(ids)
    with pytest.raises(InvalidLabels, match=told):
        head.anchor(ids, torch.zeros(ids.shape))
    assert not head.is_anchored


def test_an_anchor_for_a_place_that_a_class_has_not_is_refused():
    head = SubCentroidHead(DIM, CLASSES, subcentroids=(2, 1, 2))
    with pytest.raises(InvalidLabels, match="their class has not"):
        head.anchor(torch.tensor([[0, 1], [2, 3], [4, 5]]), torch.zeros(CLASSES, K))
