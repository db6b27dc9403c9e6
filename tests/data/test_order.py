import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnc.data.order import Plan, hashes, uniforms
from dnc.errors import InvalidSetting


def shares(images, batch_size, world, **settings):
    """For each batch, the positions of each rank."""
    plans = [Plan(images, batch_size, rank=rank, world=world, **settings) for rank in range(world)]
    by_rank = [[positions for _, positions in plan.batches(3)] for plan in plans]
    assert len({len(plan) for plan in plans}) == 1
    assert all(len(batches) == len(plans[0]) for batches in by_rank)
    return list(zip(*by_rank, strict=True))


@given(
    images=st.integers(0, 200),
    batch_size=st.integers(1, 20),
    world=st.integers(1, 9),
    shuffle=st.booleans(),
)
def test_every_image_comes_once_over_all_ranks(images, batch_size, world, shuffle):
    batches = shares(images, batch_size, world, shuffle=shuffle)
    flat = [positions for batch in batches for positions in batch]
    assert sorted(np.concatenate(flat).tolist() if flat else []) == list(range(images))
    for batch in batches:
        sizes = [len(positions) for positions in batch]
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= batch_size
        if batch_size > 1 and images >= world:
            assert min(sizes) >= 1


@given(images=st.integers(1, 200), batch_size=st.integers(1, 20), world=st.integers(1, 4))
def test_ranks_together_see_the_batches_of_one_process(images, batch_size, world):
    together = shares(images, batch_size, world, shuffle=True, seed=5)
    alone = shares(images, batch_size * world, 1, shuffle=True, seed=5)
    # The last two batches may share their images in another way, so that no rank goes empty.
    assert len(together) == len(alone)
    for batch, (expected,) in list(zip(together, alone, strict=True))[:-2]:
        np.testing.assert_array_equal(np.concatenate(batch), expected)
    in_order = [np.concatenate([p for batch in b for p in batch]) for b in (together, alone)]
    np.testing.assert_array_equal(*in_order)


@given(images=st.integers(1, 100), batch_size=st.integers(1, 20), world=st.integers(1, 4))
def test_dropping_the_last_leaves_whole_batches_only_unless_it_is_the_only_one(
    images, batch_size, world
):
    batches = shares(images, batch_size, world, drop_last=True)
    assert len(batches) == max(images // (batch_size * world), 1)
    if images >= batch_size * world:
        assert {len(positions) for batch in batches for positions in batch} == {batch_size}


def test_the_order_hangs_on_seed_and_epoch():
    def order(seed, epoch):
        plan = Plan(50, 50, shuffle=True, seed=seed)
        return next(plan.batches(epoch))[1].tolist()

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in range(4) for epoch in range(4)}) == 16


def test_numbers_of_an_image_hang_on_nothing_but_seed_epoch_and_id():
    ids = np.arange(1000)
    numbers = uniforms(1, 2, ids, 5)
    np.testing.assert_array_equal(uniforms(1, 2, ids[::-1], 3), numbers[::-1, :3])
    assert not np.isin(uniforms(1, 3, ids, 5), numbers).any()
    assert not np.isin(uniforms(2, 2, ids, 5), numbers).any()
    others = hashes(1, 2, ids, purpose="other")
    assert len(np.unique(np.concatenate([hashes(1, 2, ids, purpose="this"), others]))) == 2000


def test_numbers_are_even_and_independent():
    numbers = uniforms(0, 0, np.arange(20_000), 6)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    np.testing.assert_allclose(numbers.mean(axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(numbers.var(axis=0), 1 / 12, atol=0.003)
    np.testing.assert_allclose(np.corrcoef(numbers.T), np.eye(6), atol=0.03)
    # Neighbouring ids, and the same id in neighbouring epochs.
    neighbours = np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]
    epochs = np.corrcoef(numbers[:, 0], uniforms(0, 1, np.arange(20_000), 1)[:, 0])[0, 1]
    assert max(abs(neighbours), abs(epochs)) < 0.03


@pytest.mark.parametrize("settings", [{"batch_size": 0}, {"rank": 1}, {"rank": -1}, {"world": 0}])
def test_impossible_plans_are_refused(settings):
    with pytest.raises(InvalidSetting):
        Plan(**{"images": 4, "batch_size": 2, **settings})
