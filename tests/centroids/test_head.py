import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import normalize as l2_normalised
from torch.nn.functional import cross_entropy, normalize

from dnc import SubCentroidHead, kmeans, sinkhorn
from dnc.centroids import class_scores, clustering, normalised, soft_class_scores
from tests.oracles import rows_on_sphere, updated_by_loop


def new_head(dim=8, classes=3, seed=0, *, only_correct=False, **settings):
    """A head that absorbs all rows, unless told otherwise: then its laws are simple ones."""
    generator = torch.Generator().manual_seed(seed)
    return SubCentroidHead(dim, classes, generator=generator, only_correct=only_correct, **settings)


def state_of(head):
    return {name: value.clone() for name, value in head.state_dict().items()}


def assert_same_state(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def test_nothing_in_the_head_is_learnt():
    assert list(new_head(memory_rows=30).parameters()) == []


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    rows=st.integers(1, 80),
    momentum=st.sampled_from([0.0, 0.9, 0.999]),
    seed=st.integers(0, 1000),
)
def test_absorbing_a_batch_matches_the_per_class_loop(numbers, rows, momentum, seed):
    head = new_head(classes=len(numbers), subcentroids=numbers, momentum=momentum, seed=seed)
    head.double()
    x = rows_on_sphere(rows, 8, seed + 1, torch.float64)
    labels = torch.randint(len(numbers), (rows,), generator=torch.Generator().manual_seed(seed))
    expected = updated_by_loop(head.centroids, x, labels, head.valid, momentum=momentum)
    head.absorb(x, labels)
    torch.testing.assert_close(head.centroids, expected)


@pytest.mark.parametrize("block_values", [1, 1 << 22])
@pytest.mark.parametrize("memory_rows", [60, 400])
@pytest.mark.parametrize("batch_means", [False, True])
def test_absorbing_with_memory_matches_the_loop_over_memory_and_batch(
    memory_rows, block_values, batch_means, monkeypatch
):
    monkeypatch.setattr(clustering, "BLOCK_VALUES", block_values)
    head = new_head(
        classes=5,
        subcentroids=[4, 1, 3, 2, 4],
        memory_rows=memory_rows,
        momentum=0.9,
        batch_means=batch_means,
    )
    head.double()
    slots = memory_rows // 5
    kept_x, kept_labels = torch.empty(0, 8).double(), torch.empty(0, dtype=torch.long)
    for step in range(12):
        x = rows_on_sphere(23, 8, step).double()
        labels = torch.randint(5, (23,), generator=torch.Generator().manual_seed(step))
        labels[labels == step % 5] = (step + 2) % 5  # one class or another is absent
        kept_x, kept_labels = torch.cat([kept_x, x]), torch.cat([kept_labels, labels])
        latest = torch.cat([(kept_labels == c).nonzero()[-slots:, 0] for c in range(5)])
        latest = latest.sort().values
        of_batch = latest >= len(kept_x) - len(x)
        kept_x, kept_labels = kept_x[latest], kept_labels[latest]
        touched = torch.isin(kept_labels, labels)
        stored = kept_x.float().double()  # the memory is float32
        expected = updated_by_loop(
            head.centroids,
            stored[touched],
            kept_labels[touched],
            head.valid,
            momentum=0.9,
            averaged=of_batch[touched] if batch_means else None,
        )
        head.absorb(x, labels)
        torch.testing.assert_close(head.centroids, expected)
    assert head.steps == 12
    assert head.held.sum() == len(kept_x)


def test_reclustering_moves_every_class_that_the_memory_holds():
    head = new_head(classes=3, memory_rows=60, momentum=0.5)
    x, labels = rows_on_sphere(30, 8), torch.arange(30) % 2
    head.absorb(x, labels)
    expected = updated_by_loop(head.centroids, x, labels, head.valid, momentum=0.5)
    head.recluster()
    torch.testing.assert_close(head.centroids, expected)


def test_only_the_classes_in_the_batch_are_touched():
    head = new_head(classes=4, memory_rows=40)
    head.absorb(rows_on_sphere(40, 8), torch.arange(40) % 4)
    before = state_of(head)
    head.absorb(rows_on_sphere(10, 8, 1), torch.tensor([1, 3] * 5))
    for name in ("centroids", "occupied", "held", "idle", "memory.rows", "memory.written"):
        after = head.state_dict()[name]
        assert torch.equal(after[[0, 2]], before[name][[0, 2]]), name
    assert not torch.equal(head.centroids[1], before["centroids"][1])


@pytest.mark.filterwarnings("ignore:self.within_class_std_dev_")
def test_with_one_subcentroid_and_no_momentum_it_is_scikit_learns_nearest_centroid():
    x, y = load_digits(return_X_y=True)
    x = l2_normalised(x)
    head = SubCentroidHead(64, 10, subcentroids=1, momentum=0).eval()
    head.absorb(torch.from_numpy(x), torch.from_numpy(y))
    # NearestCentroid compares by distance, so its means must be put back on the sphere.
    nearest_centroid = NearestCentroid().fit(x, y)
    nearest_centroid.centroids_ = l2_normalised(nearest_centroid.centroids_)
    theirs = nearest_centroid.predict(x)
    assert head.decide(torch.from_numpy(x)).label.tolist() == theirs.tolist()
    assert head(torch.from_numpy(x)).argmax(1).tolist() == theirs.tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("memory_rows", [0, 400])
def test_four_modes_of_a_class_are_all_found_and_do_not_collapse(seed, memory_rows):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.linalg.qr(torch.randn(64, 4, generator=generator)).Q.T
    x = centres.repeat_interleave(100, 0)
    x = normalize(x + 0.05 * torch.randn(x.shape, generator=generator), dim=1)
    head = new_head(64, 1, seed=seed, momentum=0.9, memory_rows=memory_rows)
    for _ in range(400):
        batch = torch.randint(400, (64,), generator=generator)
        head.absorb(x[batch], torch.zeros(64, dtype=torch.long))
    assert head.health().pairwise_cosine.item() < 0.05
    found = head.decide(x).subcentroid.view(4, 100)
    assert found.mode(dim=1).values.unique().numel() == 4
    assert (head.centroids[0] @ centres.T).amax(dim=0).min() > 0.95


def test_gradients_reach_the_features_and_nothing_else():
    head = new_head()
    features = torch.randn(6, 8, requires_grad=True)
    cross_entropy(head(features), torch.arange(6) % 3).backward()
    assert features.grad.abs().sum() > 0
    assert all(not buffer.requires_grad for buffer in head.buffers())


@pytest.mark.parametrize("scores", [class_scores, soft_class_scores])
def test_the_gradient_is_that_of_cross_entropy_over_the_scores_of_the_classes(scores):
    head, labels = new_head(temperature=0.2, training_scores=scores), torch.arange(6) % 3
    features = torch.randn(6, 8, requires_grad=True)
    (ours,) = torch.autograd.grad(cross_entropy(head(features), labels), features)
    cosine = torch.stack(
        [normalize(features, dim=1) @ head.centroids[:, k].T for k in range(4)], dim=2
    )
    if scores is class_scores:
        p = (cosine.max(dim=2).values / 0.2).softmax(dim=1)
    else:  # all cases compete, and those of a class add up
        p = (cosine / 0.2).flatten(1).softmax(dim=1).unflatten(1, (3, 4)).sum(dim=2)
    (plain,) = torch.autograd.grad(-p[range(6), labels].log().mean(), features)
    torch.testing.assert_close(ours, plain)


def test_a_step_absorbs_after_the_optimizer_and_autograd_refuses_the_other_order():
    head, features = new_head(), torch.randn(6, 8, requires_grad=True)
    loss = cross_entropy(head(features), torch.arange(6) % 3)
    head.absorb(features, torch.arange(6) % 3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("memory_rows", [0, 30])
def test_forward_decide_and_health_change_no_byte_of_the_state(memory_rows):
    head = new_head(memory_rows=memory_rows)
    head.absorb(torch.randn(20, 8), torch.arange(20) % 3)
    before = state_of(head)
    for mode in (True, False):
        head.train(mode)
        head(torch.randn(5, 8))
        head.decide(torch.randn(5, 8))
        head.health()
    assert_same_state(state_of(head), before)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 1e3), st.integers(0, 100))
def test_scaling_features_changes_nothing(scale, seed):
    x, labels = rows_on_sphere(20, 8, seed), torch.arange(20) % 2
    one, other = new_head(classes=2), new_head(classes=2)
    one.absorb(x, labels)
    other.absorb(scale * x, labels)
    torch.testing.assert_close(one.centroids, other.centroids)
    torch.testing.assert_close(one(x), other(scale * x), rtol=1e-4, atol=1e-4)


def test_permuting_rows_and_classes_permutes_the_state():
    x, labels = rows_on_sphere(60, 8), torch.arange(60) % 3
    rows, classes = torch.randperm(60), torch.tensor([2, 0, 1])
    one, other = new_head(momentum=0.5), new_head(momentum=0.5)
    other.centroids.copy_(one.centroids[classes])
    one.absorb(x, labels)
    other.absorb(x[rows], classes.argsort()[labels[rows]])
    torch.testing.assert_close(other.centroids, one.centroids[classes])
    assert torch.equal(other.held, one.held[classes])


def test_scores_are_nearest_cosines_divided_by_the_temperature():
    head, x = new_head(temperature=0.1, training_scores=class_scores), torch.randn(5, 8)
    cosine = torch.einsum("nd,ckd->nck", normalised(x), head.centroids)
    torch.testing.assert_close(head(x), cosine.amax(dim=2) / 0.1)


def test_features_that_keep_their_length_are_scored_by_products_and_decided_by_cosines():
    plain, kept = (
        SubCentroidHead(6, 4, keep_length=keep, generator=torch.Generator().manual_seed(0)).eval()
        for keep in (False, True)
    )
    rows, labels = torch.randn(80, 6), torch.arange(80) % 4
    for head in (plain, kept):
        head.absorb(rows, labels)
    assert torch.equal(plain.centroids, kept.centroids)  # what is absorbed has length 1 either way
    lengths = rows.norm(dim=1, keepdim=True)
    torch.testing.assert_close(kept(rows), plain(rows) * lengths)
    assert torch.equal(kept.decide(rows).label, plain.decide(rows).label)
    assert kept(rows.half()).dtype == torch.float32


def test_in_training_every_valid_subcentroid_scores_in_evaluation_only_the_occupied():
    head = new_head(classes=3, subcentroids=[2, 4, 1])
    x = rows_on_sphere(1, 8)
    head.absorb(x, torch.tensor([1]))
    assert head(x).isfinite().all()
    evaluated = head.eval()(x)
    assert evaluated[0, [0, 2]].tolist() == [-torch.inf, -torch.inf]
    assert head.occupied.sum() == 1
    winner = head.occupied[1].nonzero().item()
    torch.testing.assert_close(evaluated[0, 1], head.centroids[1, winner] @ x[0] / 0.1)


def test_a_class_never_seen_can_never_win():
    head = new_head(classes=3).eval()
    head.absorb(torch.randn(50, 8), torch.arange(50) % 2)
    queries = torch.cat([torch.randn(500, 8), head.centroids[2]])
    assert head.decide(queries).label.max() == 1
    assert head(queries).argmax(dim=1).max() == 1
    assert head.decide(queries).rival_label.max() == 1


def test_a_subcentroid_that_held_a_row_once_can_win_ever_after():
    head = new_head(classes=1, subcentroids=2, assign=kmeans)
    p = head.centroids[0].clone()
    for row in p:
        head.absorb(row[None], torch.tensor([0]))
    assert head.held.tolist() == [[0, 1]]
    assert head.occupied.tolist() == [[True, True]]
    assert head.decide(p).subcentroid.tolist() == [0, 1]


def test_places_beyond_a_class_own_number_are_never_used():
    head = new_head(classes=3, subcentroids=[1, 4, 2], momentum=0)
    unused = head.centroids[~head.valid].clone()
    for step in range(5):
        head.absorb(rows_on_sphere(60, 8, step), torch.arange(60) % 3)
    assert torch.equal(head.occupied, head.valid)
    assert torch.equal(head.centroids[~head.valid], unused)


def test_decide_agrees_with_forward_in_any_block_size(monkeypatch):
    head = new_head(classes=5).eval()
    head.absorb(torch.randn(50, 8), torch.arange(50) % 5)
    x = torch.randn(4, 7, 8)
    whole = head.decide(x)
    monkeypatch.setattr("dnc.centroids.similarity.BLOCK_VALUES", 1)
    parts = head.decide(x)
    assert torch.equal(whole.label, head(x).argmax(dim=-1))
    for field in whole.__dataclass_fields__:
        torch.testing.assert_close(getattr(whole, field), getattr(parts, field))
        assert getattr(whole, field).shape == (4, 7)
    torch.testing.assert_close(whole.similarity, head(x).amax(dim=-1) * head.temperature)


def test_maps_are_rows_seen_from_another_side():
    maps, labels = torch.randn(2, 8, 3, 5), torch.randint(3, (2, 3, 5))
    pixels = maps.movedim(1, -1)
    one, other = new_head(memory_rows=90), new_head(memory_rows=90)
    one.absorb(maps, labels, ids=torch.tensor([7, 9]))
    other.absorb(
        pixels.reshape(-1, 8), labels.flatten(), ids=torch.tensor([7, 9]).repeat_interleave(15)
    )
    assert_same_state(state_of(one), state_of(other))
    assert one(maps).shape == (2, 3, 3, 5)
    torch.testing.assert_close(one(maps).movedim(1, -1), one(pixels))
    assert torch.equal(one.decide(maps).label, one.decide(pixels).label)


def test_ignored_rows_leave_no_trace():
    x, labels = torch.randn(10, 8), torch.arange(10) % 3
    ignored = torch.cat([labels, torch.full((4,), 255)])
    one = new_head(ignore_index=255, memory_rows=30)
    other = new_head(ignore_index=255, memory_rows=30)
    broken = torch.cat([x, torch.full((4, 8), torch.nan)])
    one.absorb(broken, ignored)
    other.absorb(x, labels)
    assert_same_state(state_of(one), state_of(other))


def test_absorbing_no_row_changes_nothing():
    head = new_head(memory_rows=30)
    before = state_of(head)
    head.absorb(torch.empty(0, 8), torch.empty(0, dtype=torch.long))
    head.absorb(torch.randn(3, 8), torch.full((3,), -100))
    assert_same_state(state_of(head), before)


def test_fewer_rows_than_subcentroids_occupy_only_as_many():
    head = new_head(classes=1)
    head.absorb(torch.randn(2, 8), torch.zeros(2, dtype=torch.long))
    assert 1 <= head.occupied.sum() <= 2
    assert head.decide(torch.randn(5, 8)).label.tolist() == [0] * 5


def test_settled_subcentroids_are_the_means_of_their_rows():
    head = new_head(subcentroids=1)
    x, labels = torch.randn(90, 8) + 1, torch.arange(90) % 3
    head.absorb(x, labels)
    head.settle(x, labels)
    means = torch.stack([normalised(x)[labels == c].mean(dim=0) for c in range(3)])
    torch.testing.assert_close(head.centroids[:, 0], normalised(means))


def test_only_correctly_classified_rows_of_a_class_that_has_begun_are_absorbed():
    head = new_head(memory_rows=300, only_correct=True, training_scores=class_scores)
    x, labels = torch.randn(90, 8), torch.arange(90) % 3
    head.occupied[:2, 0] = True
    right = head(x).argmax(dim=1) == labels
    head.absorb(x, labels, ids=torch.arange(90))
    kept = head.memory.ids[head.memory.filled]
    assert sorted(kept.tolist()) == (right | (labels == 2)).nonzero()[:, 0].tolist()
    assert 0 < right[labels < 2].sum() < 60


def test_a_class_that_is_never_right_begins_all_the_same():
    head = new_head(classes=2, only_correct=True)
    x = torch.randn(20, 8)
    head.centroids[0], head.centroids[1] = x.mean(dim=0), -x.mean(dim=0)
    head.absorb(x, torch.ones(20, dtype=torch.long))
    assert head.occupied.any(dim=1).tolist() == [False, True]


def test_an_empty_subcentroid_is_put_on_an_uncovered_row_after_its_time():
    centres = torch.eye(8)[:2]
    head = new_head(classes=1, subcentroids=2, assign=kmeans, momentum=0.9, reseed_after=3)
    head.centroids.copy_(torch.stack([centres[0], -centres[0] - centres[1]])[None])
    x, labels = centres[[0] * 8 + [1] * 2], torch.zeros(10, dtype=torch.long)
    for _ in range(2):
        head.absorb(x, labels)
    assert head.occupied[0].tolist() == [True, False]
    assert head.idle[0].tolist() == [0, 2]
    head.absorb(x, labels)  # the third time
    assert torch.equal(head.centroids[0, 1], centres[1])
    assert head.idle[0].tolist() == [0, 0]
    head.absorb(x, labels)
    assert head.occupied[0].tolist() == [True, True]
    assert head.decide(centres).subcentroid.unique().numel() == 2


@pytest.mark.parametrize("assign", [sinkhorn, kmeans])
def test_zero_rows_spoil_nothing(assign):
    x = torch.cat([torch.rand(6, 8), torch.zeros(3, 8)])
    labels = torch.zeros(9, dtype=torch.long)
    head = new_head(classes=1, momentum=0.0, assign=assign, reseed_after=1)
    head.start_from(x, labels)
    for _ in range(20):
        head.absorb(x, labels)
    torch.testing.assert_close(head.centroids.norm(dim=2), torch.ones(1, 4))


def test_rows_that_a_rule_leaves_out_take_no_part():
    def first_half(similarity, labels, **_):
        return torch.where(torch.arange(len(labels)) < 5, 0, -1)

    head = new_head(classes=2, assign=first_half, momentum=0.0)
    x = rows_on_sphere(10, 8)
    head.absorb(x, torch.tensor([1] * 5 + [0] * 5))
    torch.testing.assert_close(head.centroids[1, 0], normalize(x[:5].mean(0), dim=0))
    assert head.held.tolist() == [[0] * 4, [5, 0, 0, 0]]


def test_a_start_from_data_puts_subcentroids_on_rows():
    head, x = new_head(classes=2), torch.randn(20, 8)
    head.start_from(x, torch.zeros(20, dtype=torch.long))
    cosine = head.centroids[0] @ normalised(x).T
    torch.testing.assert_close(cosine.amax(dim=1), torch.ones(4))
    assert not head.occupied.any()
    assert torch.equal(head.centroids[1], new_head(classes=2).centroids[1])


@pytest.mark.parametrize("assign", [sinkhorn, kmeans])
def test_health_tells_collapse_death_and_age(assign):
    head = new_head(classes=3, subcentroids=2, assign=assign, memory_rows=60, momentum=0.9)
    same = rows_on_sphere(1, 8).expand(20, 8)
    for _ in range(50):
        head.absorb(same, torch.zeros(20, dtype=torch.long))
    head.absorb(rows_on_sphere(20, 8, 3), torch.ones(20, dtype=torch.long))
    health = head.health(idle_limit=10)
    assert health.pairwise_cosine[2].isnan()
    torch.testing.assert_close(health.occupancy.sum(dim=1), torch.tensor([1.0, 1.0, 0.0]))
    assert not health.dead[2].any()
    assert health.mean_age == pytest.approx(0.5)  # one half came now, the other one step ago
    if assign is kmeans:
        assert health.dead[0].sum() == 1


def test_health_reports_sub_centroids_on_top_of_each_other():
    head = new_head(classes=1, subcentroids=3)
    head.centroids.copy_(rows_on_sphere(1, 8).expand(1, 3, 8))
    head.occupied.fill_(True)
    torch.testing.assert_close(head.health().pairwise_cosine, torch.ones(1))


@pytest.mark.parametrize("memory_rows", [0, 60])
def test_a_loaded_head_goes_on_bit_for_bit(memory_rows):
    head = new_head(memory_rows=memory_rows, reseed_after=5)
    other = new_head(memory_rows=memory_rows, reseed_after=5, seed=1)
    for step in range(7):
        head.absorb(rows_on_sphere(15, 8, step), torch.arange(15) % 3)
    other.load_state_dict(copy.deepcopy(head.state_dict()))
    for step in range(7, 12):
        for either in (head, other):
            either.absorb(rows_on_sphere(15, 8, step), torch.arange(15) % 3)
    assert_same_state(state_of(head), state_of(other))


def test_soft_scores_are_for_training_alone():
    head = SubCentroidHead(8, 3)
    rows, labels = torch.randn(12, 8), torch.arange(12) % 3
    head.absorb(rows, labels)
    plain = SubCentroidHead(8, 3, training_scores=class_scores)
    plain.load_state_dict(head.state_dict())
    assert not torch.allclose(head(rows), plain(rows))
    assert torch.equal(head.eval()(rows), plain.eval()(rows))
