import numpy
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dnc.centroids import kmeans, similarities, sinkhorn, transport_plan
from dnc.errors import InvalidSetting
from tests.oracles import assignment_by_loop, rows_on_sphere


@st.composite
def clusterings(draw):
    """Rows of a few classes, from none to far more than there are sub-centroids."""
    numbers = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    counts = [draw(st.one_of(st.integers(0, 6), st.integers(20, 80))) for _ in numbers]
    dim, seed = draw(st.integers(2, 12)), draw(st.integers(0, 10_000))
    labels = torch.repeat_interleave(torch.arange(len(numbers)), torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]
    x = rows_on_sphere(len(labels), dim, seed)
    k = max(numbers)
    p = rows_on_sphere(len(numbers) * k, dim, seed + 1).view(len(numbers), k, dim)
    valid = torch.arange(k) < torch.tensor(numbers)[:, None]
    return similarities(x, p), labels, valid


def own(scores, labels):
    return scores[torch.arange(len(labels)), labels]


@settings(max_examples=200, deadline=None)
@given(clusterings(), st.sampled_from([0.01, 0.05, 0.5]), st.sampled_from([1, 3, 10]))
def test_batched_assignment_matches_per_class_loop(clustering, epsilon, iterations):
    scores, labels, valid = clustering
    expected = assignment_by_loop(scores, labels, valid, epsilon=epsilon, iterations=iterations)
    assigned = sinkhorn(
        own(scores, labels),
        labels,
        classes=len(valid),
        valid=valid,
        epsilon=epsilon,
        iterations=iterations,
    )
    decided = ~expected.tied
    assert torch.equal(assigned[decided], expected.subcentroid[decided])
    assert valid[labels, assigned].all()


@pytest.mark.parametrize("seed", range(5))
def test_converged_plan_equals_pot(seed):
    rows, k = 37, 4
    scores = rows_on_sphere(rows, 8, seed) @ rows_on_sphere(k, 8, seed + 100).T
    plan = transport_plan(
        scores.double(),
        torch.zeros(rows, dtype=torch.long),
        classes=1,
        valid=torch.ones(1, k, dtype=torch.bool),
        epsilon=0.05,
        iterations=3000,
    )
    pot = ot.sinkhorn(
        numpy.full(rows, 1 / rows),
        numpy.full(k, 1 / k),
        -scores.double().numpy(),
        reg=0.05,
        method="sinkhorn_log",
        numItermax=10_000,
        stopThr=1e-12,
    )
    numpy.testing.assert_allclose(plan.numpy() / rows, pot, atol=1e-5)


def test_every_subcentroid_receives_equal_mass_at_convergence():
    labels = torch.tensor([0] * 30 + [1] * 45)
    valid = torch.tensor([[True, True, True], [True, True, False]])
    plan = transport_plan(
        2 * torch.rand(75, 3).double() - 1, labels, classes=2, valid=valid, iterations=2000
    )
    torch.testing.assert_close(plan.sum(dim=1), torch.ones(75).double())
    torch.testing.assert_close(plan[:30].sum(dim=0), torch.full((3,), 10.0).double())
    torch.testing.assert_close(plan[30:].sum(dim=0), torch.tensor([22.5, 22.5, 0.0]).double())


@settings(max_examples=50, deadline=None)
@given(clusterings())
def test_rows_of_one_class_never_influence_another(clustering):
    scores, labels, valid = clustering
    together = transport_plan(own(scores, labels), labels, classes=len(valid), valid=valid)
    for c in range(len(valid)):
        mine = labels == c
        alone = transport_plan(
            own(scores, labels)[mine], labels[mine], classes=len(valid), valid=valid
        )
        torch.testing.assert_close(together[mine], alone, atol=1e-4, rtol=1e-4)


@settings(max_examples=50, deadline=None)
@given(clusterings(), st.randoms(use_true_random=False))
def test_permuting_rows_classes_and_subcentroids_permutes_the_plan(clustering, random):
    scores, labels, valid = clustering
    plan = transport_plan(own(scores, labels), labels, classes=len(valid), valid=valid)

    def shuffled(size):
        order = list(range(size))
        random.shuffle(order)
        return torch.tensor(order, dtype=torch.long)

    rows, classes, places = (shuffled(size) for size in (len(labels), *valid.shape))
    new_number = classes.argsort()
    permuted = transport_plan(
        own(scores, labels)[rows][:, places],
        new_number[labels][rows],
        classes=len(valid),
        valid=valid[classes][:, places],
    )
    torch.testing.assert_close(permuted, plan[rows][:, places], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("assign", [sinkhorn, kmeans])
def test_masked_rows_take_no_part(assign):
    labels = torch.tensor([0, -1, 1, 0, -1, 1, 0, 0])
    scores, valid = 2 * torch.rand(8, 3) - 1, torch.ones(2, 3, dtype=torch.bool)
    with_masked = assign(scores, labels, classes=2, valid=valid)
    kept = labels >= 0
    assert (with_masked[~kept] == -1).all()
    alone = assign(scores[kept], labels[kept], classes=2, valid=valid)
    assert torch.equal(with_masked[kept], alone)


@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 1.0, 0.0])])
def test_a_row_that_does_not_count_cannot_drown_the_others(weights):
    # So small an epsilon that next to the third row the others would vanish, if it took part.
    settings = {"classes": 1, "valid": torch.ones(1, 2, dtype=torch.bool), "epsilon": 0.002}
    scores = torch.tensor([[-0.9, -0.95], [-0.7, -0.9], [1.0, 1.0]])
    labels = torch.tensor([0, 0, -1 if weights is None else 0])
    plan = transport_plan(scores, labels, weights=weights, iterations=1, **settings)
    alone = transport_plan(scores[:2], labels[:2], iterations=1, **settings)
    torch.testing.assert_close(plan[:2], alone)
    assert alone.argmax(dim=1).tolist() == [1, 0]


def test_shares_too_small_for_floating_point_are_not_lost_on_the_way_to_convergence():
    # Nine rows in ten are at one sub-centroid and exp(-150) away from the other, which must in the
    # end get half of the mass all the same.
    scores = torch.tensor([[1.0, -0.5]] * 90 + [[-0.5, 1.0]] * 10)
    labels, valid = torch.zeros(100, dtype=torch.long), torch.ones(1, 2, dtype=torch.bool)
    plan = transport_plan(scores, labels, classes=1, valid=valid, epsilon=0.01, iterations=1000)
    torch.testing.assert_close(plan.sum(dim=0), torch.tensor([50.0, 50.0]), rtol=1e-3, atol=0)


def test_the_only_row_of_a_class_goes_to_the_most_similar_subcentroid():
    scores = 2 * torch.rand(200, 4) - 1
    valid = torch.ones(200, 4, dtype=torch.bool)
    assigned = sinkhorn(scores, torch.arange(200), classes=200, valid=valid)
    assert torch.equal(assigned, scores.argmax(dim=1))


def test_equal_rows_go_together_to_the_most_similar_subcentroid():
    # Their shares are equal but for rounding, which must not decide.
    scores = 2 * torch.rand(200, 4, generator=torch.Generator().manual_seed(0)) - 1
    valid = torch.ones(200, 4, dtype=torch.bool)
    labels = torch.arange(200).repeat_interleave(3)
    assigned = sinkhorn(scores.repeat_interleave(3, 0), labels, classes=200, valid=valid)
    assert torch.equal(assigned, scores.argmax(dim=1).repeat_interleave(3))


def test_many_iterations_lose_no_digits():
    scores = rows_on_sphere(2000, 8) @ rows_on_sphere(4, 8, 1).T
    settings = {"classes": 1, "valid": torch.ones(1, 4, dtype=torch.bool), "iterations": 1000}
    labels = torch.zeros(2000, dtype=torch.long)
    single, double = (transport_plan(s, labels, **settings) for s in (scores, scores.double()))
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-7)


def test_similarities_that_carry_a_gradient_can_be_assigned():
    scores = torch.rand(6, 2, requires_grad=True)
    plan = transport_plan(
        scores,
        torch.zeros(6, dtype=torch.long),
        classes=1,
        valid=torch.ones(1, 2, dtype=torch.bool),
    )
    assert not plan.requires_grad


def test_no_row_gives_an_empty_assignment():
    none = torch.empty(0, dtype=torch.long)
    valid = torch.ones(3, 4, dtype=torch.bool)
    assert sinkhorn(torch.empty(0, 4), none, classes=3, valid=valid).shape == (0,)
    assert kmeans(torch.empty(0, 4), none, classes=3, valid=valid).shape == (0,)


def test_integer_weights_equal_repeated_rows():
    scores, labels = 2 * torch.rand(40, 3).double() - 1, torch.arange(40) % 2
    valid = torch.ones(2, 3, dtype=torch.bool)
    times = torch.arange(40) % 4
    repeated = transport_plan(
        scores.repeat_interleave(times, 0),
        labels.repeat_interleave(times),
        classes=2,
        valid=valid,
    )
    weighted = transport_plan(scores, labels, classes=2, valid=valid, weights=times.double())
    torch.testing.assert_close(weighted.repeat_interleave(times, 0), repeated)
    assert weighted.isfinite().all()


def test_rows_that_weigh_nothing_do_not_pull_however_similar_they_are():
    scores = torch.tensor([[0.1, 0.2], [0.3, -0.5], [1.0, 1.0], [0.5, 0.4]])
    labels, valid = torch.tensor([0, 0, 0, 1]), torch.ones(2, 2, dtype=torch.bool)
    weights = torch.tensor([1.0, 2.0, 0.0, 0.0])  # of class 1 nothing weighs anything
    plan = transport_plan(scores, labels, classes=2, valid=valid, epsilon=0.002, weights=weights)
    without = transport_plan(
        scores[:2], labels[:2], classes=2, valid=valid, epsilon=0.002, weights=weights[:2]
    )
    assert plan.isfinite().all()
    torch.testing.assert_close(plan[:2], without)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("epsilon", [0.05, 0.01, 0.001])
def test_extreme_similarities_stay_finite(dtype, epsilon):
    corners = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
    labels = torch.tensor([0, 0, 0, 0, 1])
    plan = transport_plan(
        corners.to(dtype),
        labels,
        classes=2,
        valid=torch.ones(2, 2, dtype=torch.bool),
        epsilon=epsilon,
    )
    assert plan.isfinite().all()
    torch.testing.assert_close(plan.sum(dim=1), torch.ones_like(plan[:, 0]))
    assert plan[0].argmax() == 0
    assert plan[1].argmax() == 1


def test_equal_mass_pulls_rows_from_a_crowded_subcentroid():
    # All rows prefer the first one; half of them, those that prefer it least, must go elsewhere.
    preference = torch.linspace(0.1, 0.5, 20)
    scores = torch.stack([preference, -preference], dim=1)
    labels, valid = torch.zeros(20, dtype=torch.long), torch.ones(1, 2, dtype=torch.bool)
    assigned = sinkhorn(scores, labels, classes=1, valid=valid, iterations=50)
    assert assigned.tolist() == [1] * 10 + [0] * 10
    assert (kmeans(scores, labels, classes=1, valid=valid) == 0).all()


def test_kmeans_takes_the_nearest_valid_subcentroid():
    scores = torch.tensor([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]])
    valid = torch.tensor([[True, True, True], [True, False, True]])
    assert kmeans(scores, torch.tensor([0, 1]), classes=2, valid=valid).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "value"), [("epsilon", 0.0), ("epsilon", -1.0), ("iterations", 0)]
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(InvalidSetting, match=f"{name} is {value}"):
        sinkhorn(
            torch.zeros(1, 1),
            torch.zeros(1, dtype=torch.long),
            classes=1,
            valid=torch.ones(1, 1, dtype=torch.bool),
            **{name: value},
        )
