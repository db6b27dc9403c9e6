import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import interpolate
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dnc import SubCentroidHead
from dnc.centroids import Sampling, between, interpolation, largest_between, mixed, normalised
from dnc.centroids.between import nearest_cases_between
from dnc.errors import NothingAbsorbed


def drawn(seed, *, y=5, x=6, c=4, k=3, d=8):
    """A map, sub-centroids and which of these can win, at least one of them."""
    generator = torch.Generator().manual_seed(seed)
    features = normalised(torch.randn(y, x, d, generator=generator))
    centroids = normalised(torch.randn(c, k, d, generator=generator))
    eligible = torch.rand(c, k, generator=generator) < 0.8
    eligible[seed % c, seed % k] = True
    return features, centroids, eligible


def by_brute_force(features, centroids, eligible, rows, columns):
    """Similarities of every pixel to every sub-centroid, from features mixed for every pixel."""
    pixels = mixed(features.double(), rows, columns)
    cosine = torch.einsum("hwd,ckd->hwck", pixels, centroids.double())
    return cosine.masked_fill(~eligible, -torch.inf).flatten(2)


@given(
    seed=st.integers(0, 10_000),
    y=st.integers(1, 7),
    x=st.integers(1, 7),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    step=st.floats(0.5, 12),
    block=st.sampled_from([1, 100, 1 << 22]),
    spread=st.sampled_from([0.0, 1.0, 4.0]),
    c=st.sampled_from([1, 4, 9]),
    alike=st.sampled_from([0.0, 3.0]),
)
def test_every_pixel_goes_to_the_nearest_case_of_its_mixed_feature(
    seed, y, x, height, width, step, block, spread, c, alike
):
    features, centroids, eligible = drawn(seed, y=y, x=x, c=c)
    centroids = normalised(centroids + alike * centroids[:, :1])  # few pixels are clear, or many
    lengths = torch.exp(spread * torch.randn(y, x, 1))
    features = features * lengths
    rows, columns = Sampling.of(y, height, step=step), Sampling.of(x, width, step=step)
    with pytest.MonkeyPatch.context() as patch:
        for module in (between, interpolation):
            patch.setattr(module, "BLOCK_VALUES", block)
        found = nearest_cases_between(features, centroids, eligible, rows, columns)
    product = by_brute_force(features, centroids, eligible, rows, columns)
    cosine = product / mixed(lengths.double(), rows, columns)  # of the features around, on average
    best = cosine.amax(dim=2)
    chosen = cosine.gather(2, (found.label * 3 + found.subcentroid)[..., None])[..., 0]
    assert found.label.shape == (height, width)
    assert (best - chosen).abs().max() < 1e-6  # another one only where two are equally near
    torch.testing.assert_close(found.similarity.double(), best, atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [(40, 48), (33, 41)])
def test_mixtures_are_those_of_bilinear_interpolation(size):
    values = torch.randn(5, 6, 3)
    wanted = interpolate(values.movedim(-1, 0)[None], scale_factor=8, mode="bilinear")
    rows, columns = (Sampling.of(n, s, step=8) for n, s in zip((5, 6), size, strict=True))
    found = mixed(values, rows, columns).movedim(-1, 0)
    torch.testing.assert_close(found, wanted[0, :, : size[0], : size[1]])


def test_the_largest_score_of_each_pixel_is_that_of_interpolated_scores(monkeypatch):
    scores = torch.randn(5, 6, 7)
    wanted = interpolate(scores.movedim(-1, 0)[None], scale_factor=4, mode="bilinear")[0].argmax(0)
    rows, columns = Sampling.of(5, 20, step=4), Sampling.of(6, 24, step=4)
    assert torch.equal(largest_between(scores, rows, columns), wanted)
    monkeypatch.setattr(interpolation, "BLOCK_VALUES", 1)
    assert torch.equal(largest_between(scores, rows, columns), wanted)


def test_equal_similarities_go_to_the_lower_class_then_the_lower_subcentroid():
    features = normalised(torch.ones(2, 2, 4))
    centroids = normalised(torch.ones(3, 2, 4))
    eligible = torch.tensor([[False, False], [False, True], [True, True]])
    sampling = Sampling.of(2, 6, step=3)
    found = nearest_cases_between(features, centroids, eligible, sampling, sampling)
    assert (found.label == 1).all()
    assert (found.subcentroid == 1).all()


class Largest(TorchDispatchMode):
    """The most values of any tensor that is made inside."""

    def __init__(self):
        super().__init__()
        self.values = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        sizes = (t.numel() for t in tree_leaves(made) if isinstance(t, torch.Tensor))
        self.values = max(self.values, *sizes, 0)
        return made


def test_no_tensor_of_all_pixels_and_subcentroids_is_ever_made(monkeypatch):
    features, centroids, eligible = drawn(0, y=24, x=24, c=10, k=5)
    sampling = Sampling.of(24, 192, step=8)
    block = 10 * 5 * 24 * 3  # three rows of positions
    for module in (between, interpolation):
        monkeypatch.setattr(module, "BLOCK_VALUES", block)
    with Largest() as largest:
        nearest_cases_between(features, centroids, eligible, sampling, sampling)
    # Whole maps of what was decided, and the largest block: two rows of positions at the least.
    assert largest.values <= max(192 * 192, block)
    assert largest.values < 192 * 192 * 10 * 5 / 40


def test_scores_in_evaluation_are_made_in_blocks(monkeypatch):
    from dnc.centroids import similarity

    head = SubCentroidHead(8, 10, subcentroids=5).eval()
    head.absorb(torch.randn(100, 8), torch.arange(100) % 10)
    rows = torch.randn(500, 8)
    whole = head(rows)
    monkeypatch.setattr(similarity, "BLOCK_VALUES", 1000)
    with Largest() as largest:
        assert torch.allclose(head(rows), whole)
    assert largest.values == max(500 * 10, 1000)


def test_a_head_decides_between_positions_as_on_mixed_features():
    head = SubCentroidHead(8, 3, subcentroids=2, generator=torch.Generator().manual_seed(0))
    features = torch.randn(8, 4, 5)
    sampling = Sampling.of(4, 8, step=2), Sampling.of(5, 10, step=2)
    with pytest.raises(NothingAbsorbed):
        head.decide_between(features, *sampling)
    head.absorb(torch.randn(40, 8), torch.arange(40) % 2)
    found = head.decide_between(features, *sampling)
    pixels = mixed(normalised(features.movedim(0, -1)), *sampling)
    assert torch.equal(found.label, head.decide(pixels).label)
    assert (found.label < 2).all()  # the third class was never seen


def test_features_that_keep_their_length_are_mixed_with_it():
    head = SubCentroidHead(8, 3, keep_length=True, temperature=1.0)
    head.absorb(torch.randn(60, 8), torch.arange(60) % 3)
    features = torch.randn(8, 4, 5) * torch.rand(4, 5) * 10
    sampling = Sampling.of(4, 32, step=8), Sampling.of(5, 40, step=8)
    found = head.decide_between(features, *sampling)
    pixels = mixed(features.movedim(0, -1), *sampling)
    assert (found.label == head.decide(pixels).label).float().mean() > 0.999  # but for ties
    of_unit_length = head.decide(mixed(normalised(features.movedim(0, -1)), *sampling)).label
    assert (found.label != of_unit_length).any()
