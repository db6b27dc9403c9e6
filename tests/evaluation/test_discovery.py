import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from dnc.errors import InvalidData
from dnc.evaluation import neighbours
from dnc.evaluation.discovery import induction_accuracy, match
from dnc.evaluation.neighbours import nearest_neighbours, voted


@pytest.fixture
def rows() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(7, 12, generator=generator)
    labels = torch.randint(7, (400,), generator=generator)
    x = centres[labels] + 0.9 * torch.randn(400, 12, generator=generator)
    return x[:300], labels[:300], x[300:], labels[300:]


@pytest.mark.parametrize("k", [1, 5, 9])
def test_induction_accuracy_is_that_of_scikit_learns_nearest_neighbours(
    rows: tuple[Tensor, Tensor, Tensor, Tensor], k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, of_bank, queries, labels = rows
    reference = KNeighborsClassifier(k, metric="cosine").fit(bank.numpy(), of_bank.numpy())
    expected = reference.score(queries.numpy(), labels.numpy())
    assert 0.2 < expected < 0.95
    for queries_at_once, rows_at_once in ((256, 16_384), (7, 13)):
        monkeypatch.setattr(neighbours, "QUERIES", queries_at_once)
        monkeypatch.setattr(neighbours, "ROWS", rows_at_once)
        found = induction_accuracy(queries, labels, bank, of_bank, neighbours=k)
        assert found == pytest.approx(expected, abs=1e-12)


def test_neighbours_come_in_order_with_their_cosines(
    rows: tuple[Tensor, Tensor, Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, _, queries, _ = rows
    monkeypatch.setattr(neighbours, "ROWS", 50)
    found = nearest_neighbours(3 * queries, 0.1 * bank, 4)
    cosine = torch.nn.functional.cosine_similarity(queries[:, None], bank[None], dim=2)
    expected = cosine.sort(dim=1, descending=True)
    assert torch.equal(found.row, expected.indices[:, :4])
    torch.testing.assert_close(found.similarity, expected.values[:, :4])


def test_no_block_is_larger_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0
    product = torch.Tensor.__matmul__

    def watched(one: Tensor, other: Tensor) -> Tensor:
        nonlocal largest
        made = product(one, other)
        largest = max(largest, made.numel())
        return made

    monkeypatch.setattr(torch.Tensor, "__matmul__", watched)
    nearest_neighbours(torch.randn(600, 4), torch.randn(40_000, 4), 3)
    assert largest == neighbours.QUERIES * neighbours.ROWS


def test_without_queries_there_are_no_neighbours() -> None:
    assert nearest_neighbours(torch.zeros(0, 3), torch.randn(5, 3), 2).row.shape == (0, 2)


@pytest.mark.parametrize("k", [0, 6])
def test_more_neighbours_than_rows_are_refused(k: int) -> None:
    with pytest.raises(InvalidData, match="the bank has 5 rows; ask for 1 to 5"):
        nearest_neighbours(torch.randn(2, 3), torch.randn(5, 3), k)


def test_equal_votes_go_to_the_lowest_class() -> None:
    assert voted(torch.tensor([[2, 1, 2], [3, 1, 0]]), 4).tolist() == [2, 0]


def test_a_match_is_counted_inside_each_coarse_class() -> None:
    # Class 0: sub-centroid 0 holds 3 of fine class 0 and 1 of 1, sub-centroid 1 two of class 1.
    # Class 1: sub-centroids 0 and 1 are the fine classes 2 and 3.
    coarse = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
    fine = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 3, 3])
    subcentroid = torch.tensor([0, 0, 0, 0, 1, 1, 0, 0, 1, 1])
    found = match(coarse, fine, subcentroid)
    assert found.purity == pytest.approx((3 + 2 + 4) / 10)
    assert found.least_purity == pytest.approx((3 + 2) / 10)
    of_first = adjusted_mutual_info_score(fine[:6].numpy(), subcentroid[:6].numpy())
    assert found.mutual_information == pytest.approx((6 * of_first + 4 * 1.0) / 10)


def test_a_class_without_finer_ones_has_no_say_in_the_information() -> None:
    coarse = torch.tensor([0] * 4 + [1] * 6)
    fine = torch.tensor([0, 0, 1, 1] + [2] * 6)
    for split in ([0] * 6, [0, 1, 2, 0, 1, 2]):
        found = match(coarse, fine, torch.tensor([0, 0, 1, 1, *split]))
        assert found.mutual_information == pytest.approx(1)
    assert match(coarse[4:], fine[4:], torch.tensor([0, 1, 2, 0, 1, 2])).mutual_information is None


def test_subcentroids_that_know_nothing_have_no_information_in_common() -> None:
    generator = np.random.default_rng(0)
    fine = torch.from_numpy(generator.integers(4, size=4000))
    found = match(torch.zeros_like(fine), fine, torch.from_numpy(generator.integers(8, size=4000)))
    assert found.mutual_information == pytest.approx(0, abs=0.01)
    assert found.purity < 0.3
