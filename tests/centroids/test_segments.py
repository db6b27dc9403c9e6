import torch
from hypothesis import given
from hypothesis import strategies as st

from dnc.centroids.segments import (
    Bags,
    class_argmax,
    class_counts,
    class_max,
    rank_in_class,
    selection,
)

CLASSES = 4
labels_lists = st.lists(st.integers(0, CLASSES - 1), max_size=12)


def values_for(labels: list[int]) -> torch.Tensor:
    return torch.randn(len(labels), 3, generator=torch.Generator().manual_seed(len(labels)))


@given(labels_lists)
def test_reductions_match_a_loop_over_classes(labels):
    values, tensor = values_for(labels), torch.tensor(labels, dtype=torch.long)
    weights = values[:, 0].exp()
    for c in range(CLASSES):
        mine = values[tensor == c]
        assert class_counts(tensor, CLASSES)[c] == len(mine)
        torch.testing.assert_close(Bags.of(tensor, CLASSES).sum(values)[c], mine.sum(0))
        weighted = Bags.of(tensor, CLASSES).sum(values, weights)[c]
        torch.testing.assert_close(weighted, (mine * weights[tensor == c, None]).sum(0))
        scaled = Bags.of(tensor, CLASSES).sum(values, weights, scale=torch.arange(4.0))[c]
        torch.testing.assert_close(scaled, c * weighted)
        if len(mine):
            assert torch.equal(class_max(values, tensor, CLASSES)[c], mine.amax(0))
            rows = class_argmax(values, tensor, CLASSES)[c]
            assert torch.equal(values[rows, torch.arange(3)], mine.amax(0))
            assert (tensor[rows] == c).all()
        else:
            assert (class_max(values, tensor, CLASSES)[c] == -torch.inf).all()
            assert (class_argmax(values, tensor, CLASSES)[c] == -1).all()


@given(st.lists(st.lists(st.integers(-1, 2), min_size=5, max_size=5), min_size=1, max_size=4))
def test_rows_that_lie_class_by_class_are_bagged_by_place_without_a_sort(places):
    places = torch.tensor(places)
    rows = torch.arange(places.numel())
    bags = Bags.of_places(places, 3)
    for number in range(len(places) * 3):
        first = int(bags.starts[number])
        mine = bags.order[first : first + int(bags.sizes[number])]
        in_place = places.flatten() == number % 3
        of_class = rows.div(5, rounding_mode="floor") == number // 3
        assert mine.tolist() == rows[in_place & of_class].tolist()


def test_argmax_takes_the_first_of_equal_rows_and_none_where_all_are_excluded():
    values = torch.tensor([[1.0], [2.0], [2.0], [-torch.inf]])
    assert class_argmax(values, torch.tensor([0, 0, 0, 1]), 2).tolist() == [[1], [-1]]


@given(labels_lists)
def test_rank_counts_earlier_rows_of_the_same_class(labels):
    expected = [labels[:position].count(label) for position, label in enumerate(labels)]
    assert rank_in_class(torch.tensor(labels, dtype=torch.long)).tolist() == expected


@given(st.sets(st.integers(0, 9), min_size=1))
def test_selection_picks_the_same_rows_and_views_consecutive_ones(classes):
    table, chosen = torch.arange(10), torch.tensor(sorted(classes))
    picked = table[selection(chosen)]
    assert torch.equal(picked, table[chosen])
    consecutive = max(classes) - min(classes) == len(classes) - 1
    assert (
        picked.untyped_storage().data_ptr() == table.untyped_storage().data_ptr()
    ) == consecutive
