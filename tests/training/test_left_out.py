from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from dnc.models import HeadSettings
from dnc.training.features import Features
from dnc.training.left_out import FOLDS, _folds, fitted_choice, fitted_temperature


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
    found = fitted_temperature(cosines, labels)
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
    clear, blurred = (
        fitted_choice(features(4, 30, noise=noise), 4, HeadSettings(), "whitened", numbers=[2])
        for noise in (0.2, 2.0)
    )
    assert clear.subcentroids == blurred.subcentroids == 2
    assert clear.temperature < blurred.temperature


def test_one_image_of_each_class_leaves_the_temperature_as_it_was():
    alone = features(4, 1, noise=1.0)
    settings = HeadSettings(temperature=0.07)
    choice = fitted_choice(alone, 4, settings, "standard", numbers=[1, 4])
    assert (choice.subcentroids, choice.temperature, choice.losses) == (1, 0.07, {})


def heaps(classes: int, of_each: int) -> Features:
    """Each class is so many heaps of rows, and no two heaps are near each other."""
    drawn = features(classes * of_each, 240 // of_each, noise=0.3)
    return replace(drawn, labels=drawn.labels % classes)


@pytest.mark.parametrize("centring", ["none", "standard"])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_each_class_is_given_as_many_subcentroids_as_it_has_heaps(number, centring):
    choice = fitted_choice(heaps(5, number), 5, HeadSettings(), centring, numbers=[1, 2, 4, 8])
    assert choice.subcentroids == number


def test_the_number_that_is_chosen_has_the_least_loss_of_all_tried_one_by_one():
    rows, settings, numbers = features(4, 40, noise=2.0), HeadSettings(), [8, 1, 2]
    choice = fitted_choice(rows, 4, settings, "whitened", numbers=numbers)
    alone = {
        number: fitted_choice(rows, 4, settings, "whitened", numbers=[number]) for number in numbers
    }
    assert choice.losses == {number: found.losses[number] for number, found in alone.items()}
    assert choice.losses[choice.subcentroids] == min(choice.losses.values())
    assert 0.1 < min(choice.losses.values()) < max(choice.losses.values()) - 0.01
    assert choice.temperature == alone[choice.subcentroids].temperature
