import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from dnc.errors import InvalidSetting
from dnc.models import Whitening, centring_layer
from dnc.models.centring import KINDS, LEAST_SHARE

CLASSES, DIM = 3, 6


def scattered(rows: int = 3000, seed: int = 0):
    """Classes apart in one direction that scatter, all in the same way, in others."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % CLASSES
    centres = torch.randn(CLASSES, DIM, generator=generator).double()
    spread = torch.randn(DIM, DIM, generator=generator).double()
    noise = torch.randn(rows, DIM, generator=generator).double()
    return centres[labels] + noise @ spread, labels


def inside(rows, labels):
    means = torch.stack([rows[labels == label].mean(dim=0) for label in range(CLASSES)])
    residue = rows - means[labels]
    return residue.T @ residue / len(rows)


def whitening_of(rows, labels, shrinkage=0.0):
    layer = Whitening(rows.shape[1]).double()
    layer.set_(rows.mean(dim=0), inside(rows, labels), shrinkage)
    return layer


def test_whitened_classes_scatter_the_same_in_every_direction(monkeypatch):
    monkeypatch.setattr("dnc.models.centring.LEAST_SHARE", 1e-12)
    rows, labels = scattered()
    white = whitening_of(rows, labels)(rows)
    torch.testing.assert_close(white.mean(dim=0), torch.zeros(DIM).double())
    torch.testing.assert_close(inside(white, labels), torch.eye(DIM).double(), atol=1e-6, rtol=0)


def test_whitened_cosines_do_not_depend_on_how_the_features_are_mixed(monkeypatch):
    monkeypatch.setattr("dnc.models.centring.LEAST_SHARE", 1e-12)
    rows, labels = scattered()
    mixture = torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(5)).double()
    cosines = []
    for features in (rows, 3 * rows @ mixture + 7):
        white = normalize(whitening_of(features, labels)(features)[:50], dim=1)
        cosines.append(white @ white.T)
    torch.testing.assert_close(*cosines, atol=1e-6, rtol=0)


def test_shrunk_to_the_end_nothing_is_left_but_the_mean():
    rows, labels = scattered()
    layer = whitening_of(rows, labels, shrinkage=1.0)
    plain = normalize(rows - rows.mean(dim=0), dim=1)
    torch.testing.assert_close(normalize(layer(rows), dim=1), plain)


def test_a_dimension_that_never_varies_is_not_magnified_without_bound():
    rows, labels = scattered()
    rows[:, 2] = 1.5
    layer = whitening_of(rows, labels)
    average = inside(rows, labels).diagonal().mean()
    assert layer.matrix.abs().max() <= 1.001 / (LEAST_SHARE * average).sqrt()


def test_one_image_of_each_class_leaves_the_directions_alone():
    rows = torch.randn(CLASSES, DIM).double()
    layer = whitening_of(rows, torch.arange(CLASSES))
    assert torch.equal(layer.matrix, torch.eye(DIM).double())


def test_whitening_is_statistics_and_lets_gradients_through():
    layer = Whitening(DIM)
    assert not list(layer.parameters())
    rows = torch.randn(4, DIM, requires_grad=True)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.train()(rows).sum().backward()
    assert rows.grad.abs().sum() > 0
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(rows.bfloat16()).dtype == torch.float32
    assert layer.half()(rows.half()).dtype == torch.float32


def test_layers_by_name():
    kinds = [type(centring_layer(kind, DIM)) for kind in KINDS]
    assert kinds == [nn.Identity, nn.BatchNorm1d, Whitening]
    with pytest.raises(InvalidSetting, match="whitened"):
        centring_layer("white", DIM)
    with pytest.raises(InvalidSetting, match="shrinkage"):
        Whitening(DIM).set_(torch.zeros(DIM), torch.eye(DIM), 1.5)
