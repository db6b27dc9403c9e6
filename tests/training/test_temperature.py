import pytest
import torch
from torch.nn.functional import cross_entropy

from dnc.models import HeadSettings
from dnc.training.features import Features
from dnc.training.temperature import FOLDS, _best, _folds, fitted_temperature


def features(classes: int, of_each: int, *, noise: float, seed: int = 0) -> Features:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat(of_each)
    centres = torch.randn(classes, 16, generator=generator)
    rows = centres[labels] + noise * torch.randn(len(labels), 16, generator=generator)
    return Features(rows, labels, torch.arange(len(labels)), ())


@pytest.mark.parametrize("temperature", [0.02, 0.1, 0.5])
def test_the_temperature_that_labels_were_drawn_with_is_found(temperature):
    generator = torch.Generator().manual_seed(0)
    cosines = 2 * torch.rand(20_000, 5, generator=generator) - 1
    chances = (cosines / temperature).softmax(dim=1)
    labels = torch.multinomial(chances, 1, generator=generator)[:, 0]
    found = _best(cosines, labels)
    assert found == pytest.approx(temperature, rel=0.05)
    grid = torch.linspace(0.5 * temperature, 2 * temperature, 400)
    losses = torch.stack([cross_entropy(cosines / t, labels) for t in grid])
    assert float(cross_entropy(cosines / found, labels)) <= float(losses.min()) + 1e-5


def test_folds_deal_each_class_out_evenly():
    labels = torch.tensor([0] * 10 + [1] * 7 + [2])
    fold = _folds(labels)
    for label in range(3):
        counts = torch.bincount(fold[labels == label], minlength=FOLDS)
        assert counts.max() - counts.min() <= 1
    assert torch.equal(fold, _folds(labels))


def test_classes_that_overlap_make_warm_probabilities():
    settings = HeadSettings(subcentroids=2)
    clear, blurred = (
        fitted_temperature(features(4, 30, noise=noise), 4, settings, "whitened")
        for noise in (0.2, 2.0)
    )
    assert clear < blurred


def test_one_image_of_each_class_leaves_the_temperature_as_it_was():
    settings = HeadSettings(temperature=0.07)
    assert fitted_temperature(features(4, 1, noise=1.0), 4, settings, "standard") == 0.07
