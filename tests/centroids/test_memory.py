from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dnc.centroids import Memory
from dnc.errors import InvalidSetting
from tests.oracles import rows_on_sphere

CLASSES, SLOTS, DIM = 3, 4, 5


def filled_memory(batches: list[list[int]], **settings) -> Memory:
    memory = Memory(CLASSES * SLOTS, DIM, CLASSES, **settings)
    first = 0
    for step, labels in enumerate(batches):
        ids = torch.arange(first, first + len(labels))
        x = rows_on_sphere(len(labels), DIM, seed=step)
        memory.write(x, torch.tensor(labels, dtype=torch.long), ids, step=step)
        first += len(labels)
    return memory


batch_lists = st.lists(st.lists(st.integers(0, CLASSES - 1), max_size=14), max_size=6)


@settings(deadline=None)
@given(batch_lists)
def test_each_class_keeps_its_latest_rows(batches):
    kept = [deque(maxlen=SLOTS) for _ in range(CLASSES)]
    number = 0
    for step, labels in enumerate(batches):
        x = rows_on_sphere(len(labels), DIM, seed=step)
        for row, label in zip(x, labels, strict=True):
            kept[label].append((number, step, row))
            number += 1
    memory = filled_memory(batches)
    for c in range(CLASSES):
        filled = memory.filled[c]
        order = memory.ids[c][filled].argsort()
        assert memory.ids[c][filled][order].tolist() == [item[0] for item in kept[c]]
        assert memory.written_at[c][filled][order].tolist() == [item[1] for item in kept[c]]
        if kept[c]:
            rows = torch.stack([item[2] for item in kept[c]])
            assert torch.equal(memory.rows[c][filled][order], rows)


def test_memory_keeps_the_whole_batch_when_it_wraps():
    memory = filled_memory([[0, 0, 0], [0, 0, 0]])
    assert sorted(memory.ids[0].tolist()) == [2, 3, 4, 5]


def test_a_rare_class_is_not_washed_out_by_a_frequent_one():
    memory = filled_memory([[2], [0] * 50])
    assert memory.ids[2, 0] == 0
    assert memory.filled.sum(dim=1).tolist() == [4, 0, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_state_dict_round_trip_is_exact_and_writing_goes_on_where_it_was(dtype):
    batches = [[0, 1, 0], [0, 2, 0, 0]]
    memory = filled_memory(batches, dtype=dtype)
    copy = Memory(CLASSES * SLOTS, DIM, CLASSES, dtype=dtype)
    copy.load_state_dict({name: value.clone() for name, value in memory.state_dict().items()})
    for either in (memory, copy):
        either.write(
            rows_on_sphere(2, DIM, seed=9), torch.tensor([0, 1]), torch.tensor([90, 91]), step=9
        )
    for name, value in memory.state_dict().items():
        assert torch.equal(copy.state_dict()[name], value), name


def test_mean_age_counts_steps_since_writing():
    memory = filled_memory([[0], [], [1, 1]])
    assert memory.mean_age(5) == pytest.approx((5 + 3 + 3) / 3)
    assert torch.tensor(Memory(3, 2, 3).mean_age(5)).isnan()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_casting_the_model_leaves_the_precision_of_the_memory(dtype):
    memory = filled_memory([[0, 1, 2]], dtype=dtype)
    before = memory.rows.clone()
    for cast in (torch.float16, torch.float64):
        memory.to(cast)
        assert torch.equal(memory.rows, before)
        assert memory.rows.dtype == dtype


def test_a_capacity_below_one_row_a_class_is_refused():
    with pytest.raises(InvalidSetting, match="memory of 2 rows cannot hold one row of each of 3"):
        Memory(2, DIM, 3)


def test_an_unknown_precision_is_refused():
    with pytest.raises(InvalidSetting, match=r"torch\.int64"):
        Memory(3, DIM, 3, dtype=torch.long)
