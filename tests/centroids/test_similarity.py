import jaxtyping
import pytest
import torch

from dnc.centroids import (
    class_scores,
    normalised,
    similarities,
    similarity_to_own_class,
    soft_class_scores,
)
from tests.oracles import rows_on_sphere


def test_similarity_is_the_cosine():
    x, p = torch.randn(5, 7), torch.randn(3, 2, 7)
    expected = torch.nn.functional.cosine_similarity(x[:, None, None], p[None], dim=-1)
    torch.testing.assert_close(similarities(normalised(x), normalised(p)), expected)


def test_own_class_similarity_is_a_slice_of_the_full_one(monkeypatch):
    monkeypatch.setattr("dnc.centroids.similarity.BLOCK_VALUES", 2 * 3 * 8)  # two rows
    x, p = rows_on_sphere(11, 8), rows_on_sphere(4 * 3, 8, seed=1).view(4, 3, 8)
    labels = torch.arange(11) % 4
    expected = similarities(x, p)[torch.arange(11), labels]
    torch.testing.assert_close(similarity_to_own_class(x, labels, p), expected)


def test_own_class_similarity_of_no_rows_is_empty():
    own = similarity_to_own_class(
        torch.empty(0, 8), torch.empty(0, dtype=torch.long), torch.ones(4, 3, 8)
    )
    assert own.shape == (0, 3)


def test_class_score_is_the_best_eligible_case():
    cosine = torch.tensor([[[0.9, 0.1], [0.5, 0.6], [0.3, 0.2]]])
    eligible = torch.tensor([[False, True], [True, True], [False, False]])
    assert class_scores(cosine, eligible)[0].tolist() == pytest.approx([0.1, 0.6, -torch.inf])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_normalised_rows_have_length_one_in_float32_or_better(dtype):
    unit = normalised((1000 * torch.randn(6, 33)).to(dtype))
    assert unit.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(6, dtype=unit.dtype))


def test_a_zero_row_has_no_direction_stays_zero_and_its_gradient_is_finite():
    zero = torch.zeros(1, 4, requires_grad=True)
    unit = normalised(zero)
    assert torch.equal(unit, torch.zeros(1, 4))
    unit.sum().backward()
    assert zero.grad.abs().max() <= 1


def test_even_tiny_rows_get_length_one():
    row = torch.tensor([[3e-14, 4e-14]])
    torch.testing.assert_close(normalised(row), torch.tensor([[0.6, 0.8]]))


def test_shapes_in_annotations_are_checked_while_testing():
    with pytest.raises(jaxtyping.TypeCheckError):
        similarities(torch.ones(2, 3), torch.ones(4, 5, 6))


def test_soft_scores_are_the_mean_of_exponentials():
    cosine = 2 * torch.rand(5, 3, 4, dtype=torch.float64) - 1
    eligible = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=torch.bool)
    scores = 0.2 * soft_class_scores(cosine / 0.2, eligible)
    for row in range(5):
        for label, numbers in enumerate((4, 2, 1)):
            mean = (cosine[row, label, :numbers] / 0.2).exp().mean()
            torch.testing.assert_close(scores[row, label], 0.2 * mean.log())


def test_soft_scores_of_equal_subcentroids_are_their_similarity_however_many():
    cosine = torch.rand(6, 3, 1).expand(6, 3, 4)
    eligible = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)
    torch.testing.assert_close(soft_class_scores(cosine, eligible), cosine[:, :, 0])


def test_soft_scores_become_the_nearest_as_the_temperature_falls():
    cosine = torch.rand(6, 3, 4)
    everything = torch.ones(3, 4, dtype=torch.bool)
    nearest = class_scores(cosine, everything)
    cold = 1e-4 * soft_class_scores(cosine / 1e-4, everything)
    torch.testing.assert_close(cold, nearest, atol=1e-3, rtol=0)
    # Never above the nearest, and never further below than the number allows.
    soft = 0.1 * soft_class_scores(cosine / 0.1, everything)
    assert (soft <= nearest + 1e-6).all()
    assert (soft >= nearest - 0.1 * torch.tensor(4.0).log() - 1e-6).all()
