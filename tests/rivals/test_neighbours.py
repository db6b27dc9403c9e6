import math

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor
from torch.nn.functional import cross_entropy

from dnc.errors import InvalidLabels, InvalidSetting
from dnc.rivals import NeighbourHead, neighbours


def toy(rows: int = 12, classes: int = 3, seed: int = 0) -> tuple[NeighbourHead, Tensor, Tensor]:
    """A head that holds images 100, 102, ... and the features that came of them."""
    generator = torch.Generator().manual_seed(seed)
    head = NeighbourHead(4, classes, bank_rows=rows, temperature=0.2, generator=generator)
    ids, labels = 100 + 2 * torch.arange(rows), torch.arange(rows) % classes
    head.hold(ids.flip(0), labels.flip(0))  # in any order
    return head, torch.randn(rows, 4, generator=generator), labels


def test_the_loss_is_that_of_neighbourhood_components_analysis() -> None:
    head, x, labels = toy()
    ids = 100 + 2 * torch.arange(len(x))
    found = cross_entropy(head(x, ids), labels, reduction="none")
    for i in range(len(x)):
        same = every = 0.0
        for j in range(len(x)):
            if j != i:
                cosine = torch.nn.functional.cosine_similarity(x[i], head.bank[j], dim=0)
                weight = math.exp(float(cosine) / 0.2)
                every += weight
                same += weight if labels[j] == labels[i] else 0.0
        assert float(found[i]) == pytest.approx(-math.log(same / every), abs=1e-5)


def test_gradients_of_the_loss_reach_the_features() -> None:
    head, x, labels = toy()
    x = x.double().requires_grad_()
    head = head.double()
    ids = 100 + 2 * torch.arange(len(x))
    assert torch.autograd.gradcheck(lambda rows: cross_entropy(head(rows, ids), labels), (x,))


def test_a_row_is_first_its_image_and_then_follows_it() -> None:
    head, x, labels = toy()
    first, again = x, x.flip(1)
    ids = 100 + 2 * torch.arange(len(x))
    head.absorb(first, labels, ids)
    torch.testing.assert_close(head.bank, torch.nn.functional.normalize(first))
    head.absorb(again[:3], labels[:3], ids[:3])
    unit = torch.nn.functional.normalize
    torch.testing.assert_close(head.bank[:3], unit(0.5 * unit(first[:3]) + 0.5 * unit(again[:3])))
    torch.testing.assert_close(head.bank[3:], unit(first[3:]))


def test_one_neighbour_decides_as_scikit_learns_does(monkeypatch: pytest.MonkeyPatch) -> None:
    head, x, labels = toy(rows=60, classes=5)
    head.neighbours = 1
    head.absorb(x, labels, 100 + 2 * torch.arange(60))
    queries = torch.randn(40, 4, generator=torch.Generator().manual_seed(7))
    reference = KNeighborsClassifier(1, metric="cosine").fit(x.numpy(), labels.numpy())
    expected = reference.predict(queries.numpy()).tolist()
    assert head.eval()(queries).argmax(dim=1).tolist() == expected
    monkeypatch.setattr(neighbours, "BLOCK_VALUES", 130)
    assert head(queries).argmax(dim=1).tolist() == expected


def test_several_neighbours_are_weighed_by_their_similarity() -> None:
    head, x, labels = toy(rows=60, classes=5)
    head.neighbours = 7
    head.absorb(x, labels, 100 + 2 * torch.arange(60))
    queries = torch.randn(20, 4, generator=torch.Generator().manual_seed(7))
    cosine = torch.nn.functional.cosine_similarity(queries[:, None], x[None], dim=2)
    expected = torch.zeros(20, 5)
    for i in range(20):
        for j in cosine[i].argsort(descending=True)[:7].tolist():
            expected[i, labels[j]] += math.exp(float(cosine[i, j]) / 0.2)
    torch.testing.assert_close(head.eval()(queries).softmax(1), expected / expected.sum(1, True))


def test_an_image_that_never_came_does_not_decide() -> None:
    head, x, labels = toy()
    ids = 100 + 2 * torch.arange(len(x))
    head.absorb(x[:1], labels[:1], ids[:1])
    assert head.eval()(x).argmax(dim=1).eq(labels[0]).all()


def test_the_only_image_of_its_class_says_nothing() -> None:
    head = NeighbourHead(4, 2, bank_rows=3)
    head.hold(torch.arange(3), torch.tensor([0, 0, 1]))
    x = torch.randn(3, 4, requires_grad=True)
    losses = cross_entropy(head(x, torch.arange(3)), torch.tensor([0, 0, 1]), reduction="none")
    assert losses.isfinite().all()
    (gradient,) = torch.autograd.grad(losses[2], x)
    assert not gradient.any()


def test_what_cannot_be_held_is_refused() -> None:
    head = NeighbourHead(4, 2, bank_rows=3)
    with pytest.raises(InvalidLabels, match="bank of 3 rows"):
        head.hold(torch.arange(2), torch.zeros(2, dtype=torch.long))
    with pytest.raises(InvalidLabels, match="twice"):
        head.hold(torch.tensor([1, 1, 2]), torch.zeros(3, dtype=torch.long))
    with pytest.raises(InvalidLabels, match="allowed are 0 to 1"):
        head.hold(torch.arange(3), torch.tensor([0, 1, 2]))
    with pytest.raises(InvalidLabels, match="Image 9 is not among the 3"):
        head.absorb(torch.zeros(1, 4), torch.tensor([0]), torch.tensor([9]))
    with pytest.raises(InvalidLabels, match="give the ids"):
        head.absorb(torch.zeros(1, 4), torch.tensor([0]))
    with pytest.raises(InvalidSetting, match="momentum is 1"):
        NeighbourHead(4, 2, bank_rows=3, momentum=1)
