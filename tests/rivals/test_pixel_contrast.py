import math

import pytest
import torch

from dnc.rivals.pixel_contrast import PixelProjection, drawn_pixels, pixel_contrast


def by_hand(x: torch.Tensor, labels: list[int], temperature: float) -> float:
    """The loss as its definition reads."""
    values = []
    for i in range(len(x)):
        against = sum(
            math.exp(float(x[i] @ x[n]) / temperature)
            for n in range(len(x))
            if labels[n] != labels[i]
        )
        losses = []
        for j in range(len(x)):
            if j != i and labels[j] == labels[i] and against:
                near = math.exp(float(x[i] @ x[j]) / temperature)
                losses.append(-math.log(near / (near + against)))
        if losses:
            values.append(sum(losses) / len(losses))
    return sum(values) / len(values) if values else 0.0


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 1, 2], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]])
def test_the_contrast_is_its_definition(labels: list[int]) -> None:
    x = torch.nn.functional.normalize(torch.randn(6, 4, dtype=torch.double), dim=1)
    found = pixel_contrast(x, torch.tensor(labels), 0.1)
    assert float(found) == pytest.approx(by_hand(x, labels, 0.1), abs=1e-9)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 2, 2]])
def test_gradients_are_numbers_whatever_classes_there_are(labels: list[int]) -> None:
    x = torch.randn(4, 3, requires_grad=True)
    pixel_contrast(torch.nn.functional.normalize(x, dim=1), torch.tensor(labels)).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_pixels_that_are_where_they_belong_have_less_contrast_left() -> None:
    near = torch.nn.functional.normalize(torch.tensor([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1]]))
    labels = torch.tensor([0, 0, 1, 1])
    assert pixel_contrast(near, labels) < pixel_contrast(near, labels[[0, 2, 1, 3]])


@pytest.mark.parametrize(
    ("easy", "hard", "expected"),
    [(100, 100, (10, 10)), (100, 3, (17, 3)), (4, 100, (4, 16)), (5, 6, (5, 6)), (0, 30, (0, 20))],
)
def test_half_of_the_pixels_are_hard_ones_if_there_are_enough(
    easy: int, hard: int, expected: tuple[int, int]
) -> None:
    # Class 1 is as many as is said; class 3 has a few.
    labels = torch.cat([torch.full((easy + hard,), 1), torch.full((3,), 3)])
    is_hard = torch.cat([torch.arange(easy + hard) >= easy, torch.tensor([True, False, False])])
    order = torch.randperm(len(labels))
    chosen = drawn_pixels(labels[order], is_hard[order], 20)
    assert len(chosen.unique()) == len(chosen)
    drawn, hard_ones = labels[order][chosen], is_hard[order][chosen]
    own = drawn == 1
    assert (int((own & ~hard_ones).sum()), int((own & hard_ones).sum())) == expected
    assert int((drawn == 3).sum()) == 3


def test_every_pixel_of_a_class_may_be_drawn() -> None:
    labels, is_hard = torch.zeros(8, dtype=torch.long), torch.arange(8) % 2 == 0
    seen = {int(i) for _ in range(60) for i in drawn_pixels(labels, is_hard, 2)}
    assert seen == set(range(8))


def test_without_pixels_nothing_is_drawn() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert len(drawn_pixels(none, none.bool(), 5)) == 0
    assert float(pixel_contrast(torch.zeros(0, 3), none)) == 0


def test_projections_have_length_1() -> None:
    found = PixelProjection(6, 5)(torch.randn(2, 6, 3, 4))
    assert found.shape == (2, 3, 4, 5)
    torch.testing.assert_close(found.norm(dim=-1), torch.ones(2, 3, 4))
