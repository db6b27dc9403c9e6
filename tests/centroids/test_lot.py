import pytest
import torch

from dnc import SubCentroidHead
from dnc.centroids.lot import at_most_of_each_class
from dnc.centroids.validation import Rows


def pixels(images=6, places=50, classes=3):
    """A row for each place of some images."""
    ids = torch.arange(images).repeat_interleave(places)
    positions = torch.arange(places).repeat(images)
    labels = (ids + positions) % classes
    return Rows(torch.randn(len(ids), 4), labels, ids, positions)


def drawn_places(rows):
    return set(zip(rows.ids.tolist(), rows.positions.tolist(), strict=True))


def test_each_class_keeps_so_many_rows_or_all_that_it_has():
    rows = pixels()
    rows = rows.where((rows.labels != 2) | (rows.positions < 6))
    drawn = at_most_of_each_class(rows, 20, seed=0, step=3)
    assert drawn.labels.bincount().tolist() == [20, 20, int((rows.labels == 2).sum())]
    assert at_most_of_each_class(rows, 1000, seed=0, step=3) is rows


def test_what_is_drawn_keeps_its_order_and_stays_together():
    rows = pixels()
    drawn = at_most_of_each_class(rows, 10, seed=1, step=1)
    flat = drawn.ids * 50 + drawn.positions
    assert torch.equal(flat, flat.sort().values)
    assert torch.equal(drawn.features, rows.features[flat])
    assert torch.equal(drawn.labels, rows.labels[flat])


def test_another_step_or_seed_draws_others_and_the_same_one_the_same():
    rows = pixels()
    one = drawn_places(at_most_of_each_class(rows, 20, seed=0, step=0))
    assert one == drawn_places(at_most_of_each_class(rows, 20, seed=0, step=0))
    assert one != drawn_places(at_most_of_each_class(rows, 20, seed=0, step=1))
    assert one != drawn_places(at_most_of_each_class(rows, 20, seed=1, step=0))


@pytest.mark.parametrize("parts", [2, 3])
def test_what_parts_have_drawn_holds_what_all_would_draw(parts):
    rows = pixels()
    part = rows.ids % parts
    of_parts = [at_most_of_each_class(rows.where(part == p), 15, seed=0, step=9) for p in range(3)]
    together = Rows(*(torch.cat([getattr(own, name) for own in of_parts]) for name in vars(rows)))
    of_all = drawn_places(at_most_of_each_class(rows, 15, seed=0, step=9))
    assert drawn_places(at_most_of_each_class(together, 15, seed=0, step=9)) == of_all


def test_every_row_is_drawn_about_equally_often():
    rows = pixels()
    times = torch.zeros(len(rows.labels))
    for step in range(400):
        drawn = at_most_of_each_class(rows, 25, seed=0, step=step)
        times[drawn.ids * 50 + drawn.positions] += 1
    # A quarter of 100 rows in each of 400 draws: 100 times, give or take 8.7.
    assert (times - 100).abs().max() < 5 * 8.7
    assert 7 < times.std() < 10.5


def test_a_head_clusters_no_more_rows_of_a_class_than_it_is_told():
    head = SubCentroidHead(4, 3, subcentroids=2, rows_per_class=12, only_correct=False)
    features = torch.randn(5, 4, 7, 7)
    labels = torch.zeros(5, 7, 7, dtype=torch.long)
    labels[0, 0, :5] = 1
    head.absorb(features, labels, torch.arange(5))
    assert head.held.sum(dim=1).tolist() == [12, 5, 0]


@pytest.mark.parametrize("number", [0, -3])
def test_less_than_one_row_is_refused(number):
    with pytest.raises(ValueError, match=f"rows_per_class is {number}; it must be 1 or more"):
        SubCentroidHead(4, 3, rows_per_class=number)
