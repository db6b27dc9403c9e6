import pytest
import torch

from dnc.errors import InvalidLabels, InvalidSetting
from dnc.rivals import ClassMeanHead


def batches(seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(n, 5, generator=generator) + 3,
            torch.randint(3, (n,), generator=generator),
        )
        for n in (20, 1, 33)
    ]


def test_without_decay_a_mean_is_that_of_all_rows_that_came() -> None:
    head = ClassMeanHead(5, 4, decay=None)
    for x, y in batches():
        head.absorb(x, y)
    x, y = (torch.cat(parts) for parts in zip(*batches(), strict=True))
    for number in range(3):
        torch.testing.assert_close(head.means[number], x[y == number].mean(dim=0))
    assert head.rows.tolist() == [*torch.bincount(y, minlength=3).tolist(), 0]


def test_with_decay_a_mean_follows_the_definition_by_hand() -> None:
    head = ClassMeanHead(5, 4, decay=0.9)
    by_hand: dict[int, torch.Tensor] = {}
    for x, y in batches():
        head.absorb(x, y)
        for number in y.unique().tolist():
            new = x[y == number].mean(dim=0)
            old = by_hand.get(number)
            by_hand[number] = new if old is None else 0.9 * old + 0.1 * new
    for number, mean in by_hand.items():
        torch.testing.assert_close(head.means[number], mean)


def test_scores_are_minus_squared_distances_and_the_nearest_mean_decides() -> None:
    head = ClassMeanHead(5, 3, decay=None)
    x, y = batches()[0]
    head.absorb(x, y)
    expected = -torch.stack([(x - mean).square().sum(dim=1) for mean in head.means], dim=1)
    torch.testing.assert_close(head(x), expected)
    torch.testing.assert_close(head.eval()(x), expected)


def test_a_class_that_never_came_cannot_win() -> None:
    head = ClassMeanHead(2, 3).eval()
    head.absorb(torch.tensor([[5.0, 5.0], [-5.0, 5.0]]), torch.tensor([0, 2]))
    scores = head(torch.zeros(1, 2))  # nearest to the mean of class 1, which is still zero
    assert scores[0, 1] == -torch.inf
    assert head.train()(torch.zeros(1, 2)).isfinite().all()


def test_ignored_rows_change_nothing() -> None:
    head = ClassMeanHead(5, 3)
    x, y = batches()[0]
    head.absorb(x, torch.full_like(y, -100))
    assert not head.rows.any()
    assert not head.means.any()


def test_scores_are_exact_under_autocast() -> None:
    head = ClassMeanHead(5, 3)
    x, y = batches()[0]
    head.absorb(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = head(x)
    assert torch.equal(found, head(x))


def test_bad_settings_and_labels_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="decay is 2"):
        ClassMeanHead(5, 3, decay=2)
    with pytest.raises(InvalidLabels, match="out of range"):
        ClassMeanHead(5, 3).absorb(torch.zeros(1, 5), torch.tensor([3]))
