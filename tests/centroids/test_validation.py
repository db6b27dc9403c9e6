import numpy as np
import pytest
import torch

from dnc import SubCentroidHead
from dnc.centroids.validation import labelled_rows
from dnc.errors import (
    DNCError,
    InvalidFeatures,
    InvalidLabels,
    InvalidSetting,
    NonFiniteFeatures,
    NothingAbsorbed,
)


def new_head(**settings):
    return SubCentroidHead(4, 3, memory_rows=9, **settings)


LABELS = torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("features", "labels", "ids", "error", "message"),
    [
        (torch.ones(3, 5), LABELS, None, InvalidFeatures, r"shape \(3, 5\).*dim=4"),
        (torch.ones(4), LABELS, None, InvalidFeatures, r"shape \(4,\)"),
        (torch.ones(3, 4, dtype=torch.long), LABELS, None, InvalidFeatures, "floating point"),
        (torch.ones(3, 4), LABELS.float(), None, InvalidLabels, r"float32.*\.long\(\)"),
        (torch.ones(3, 4), LABELS.bool(), None, InvalidLabels, "bool"),
        (torch.ones(3, 4), LABELS[:2], None, InvalidLabels, r"shape \(2,\); expected \(3,\)"),
        (torch.ones(3, 4), LABELS + 1, None, InvalidLabels, "out of range: 3. Allowed are 0 to 2"),
        (torch.ones(3, 4), LABELS - 1, None, InvalidLabels, "out of range: -1"),
        (torch.ones(3, 4), LABELS, LABELS[:1], InvalidLabels, r"Ids have shape \(1,\)"),
        (torch.ones(3, 4), LABELS, LABELS.float(), InvalidLabels, "Ids are torch.float32"),
        (torch.ones(2, 4, 3, 3), torch.zeros(2, 3), None, InvalidLabels, "float32"),
    ],
)
def test_what_cannot_be_absorbed_is_refused_and_changes_nothing(
    features, labels, ids, error, message
):
    head = new_head()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    with pytest.raises(error, match=message):
        head.absorb(features, labels, ids)
    for name, value in head.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_what_is_no_tensor_is_refused():
    settings = {"dim": 4, "classes": 3, "ignore_index": -100}
    with pytest.raises(InvalidFeatures, match=r"Features are ndarray.*torch\.as_tensor"):
        labelled_rows(np.ones((3, 4)), LABELS, None, **settings)
    with pytest.raises(InvalidLabels, match=r"Labels are list.*torch\.as_tensor"):
        labelled_rows(torch.ones(3, 4), [0, 1, 2], None, **settings)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_values_that_are_not_finite_are_counted_and_located(bad):
    features = torch.ones(30, 4)
    features[4, 1] = features[7, 0] = features[7, 3] = bad
    head = new_head()
    with pytest.raises(NonFiniteFeatures, match=r"3 feature values .* 2 of 30 rows: 4, 7\."):
        head.absorb(features, torch.arange(30) % 3)
    assert head.steps == 0
    assert not head.memory.filled.any()


def test_no_decision_is_made_on_values_that_are_not_finite():
    head = new_head()
    head.absorb(torch.ones(3, 4), LABELS)
    with pytest.raises(NonFiniteFeatures, match=r"1 of 2 rows: 1\."):
        head.decide(torch.tensor([[1.0] * 4, [torch.nan] * 4]))


def test_a_long_list_of_bad_rows_is_cut():
    with pytest.raises(NonFiniteFeatures, match=r"7, 8, 9, \.\.\."):
        new_head().absorb(torch.full((30, 4), torch.nan), torch.arange(30) % 3)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"momentum": 1.5}, "momentum is 1.5; it must be between 0 and 1"),
        ({"momentum": -0.1}, "momentum is -0.1"),
        ({"momentum": torch.nan}, "momentum is nan"),
        ({"epsilon": 0.0}, "epsilon is 0.0; it must be above 0"),
        ({"iterations": 0}, "iterations is 0"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"memory_rows": -1}, "memory_rows is -1"),
        ({"memory_rows": 2}, "memory of 2 rows cannot hold one row of each of 3 classes"),
        ({"reseed_after": 0}, "reseed_after is 0"),
        ({"subcentroids": 0}, "asks for 0 of a class"),
        ({"subcentroids": [1, 0, 2]}, "asks for 0 of a class"),
        ({"subcentroids": [1, 2]}, "2 numbers for 3 classes"),
        ({"subcentroids": []}, "0 numbers for 3 classes"),
    ],
)
def test_settings_out_of_range_are_refused(setting, message):
    with pytest.raises(InvalidSetting, match=message):
        SubCentroidHead(4, 3, **setting)


@pytest.mark.parametrize(("dim", "classes"), [(0, 3), (4, 0), (4, -1)])
def test_a_head_needs_a_dimension_and_a_class(dim, classes):
    with pytest.raises(InvalidSetting, match="must be at least 1"):
        SubCentroidHead(dim, classes)


def test_a_decision_before_anything_was_absorbed_is_refused():
    with pytest.raises(NothingAbsorbed, match="Call absorb"):
        new_head().decide(torch.ones(1, 4))


def test_reclustering_without_a_memory_is_refused():
    with pytest.raises(InvalidSetting, match="memory_rows"):
        SubCentroidHead(4, 3).recluster()


def test_scores_of_a_wrong_dimension_are_refused():
    with pytest.raises(InvalidFeatures, match="dim=4"):
        new_head()(torch.ones(3, 5))


def test_no_rows_have_no_scores_and_no_decisions():
    head = new_head()
    assert head(torch.empty(0, 4)).shape == (0, 3)
    head.absorb(torch.ones(3, 4), LABELS)
    assert head.decide(torch.empty(0, 4)).label.shape == (0,)


def test_every_error_has_one_root():
    for error in (InvalidFeatures, InvalidLabels, InvalidSetting, NonFiniteFeatures):
        assert issubclass(error, DNCError)
        assert issubclass(error, ValueError)
    assert issubclass(NothingAbsorbed, DNCError)
