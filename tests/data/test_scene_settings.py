import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnc.data import SceneAugmentation, ScenePreprocessing
from dnc.errors import InvalidSetting
from tests.data.test_settings import JSON

PREPROCESSING = ScenePreprocessing((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), shorter_side=360)
AUGMENTATION = SceneAugmentation(240, scale=(0.7, 1.5), flip=False, colour_jitter=0.4, hue=0.1)
NATIVE = ScenePreprocessing((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), interpolation="bicubic")


@pytest.mark.parametrize("settings", [PREPROCESSING, NATIVE, AUGMENTATION])
def test_settings_survive_json(settings):
    assert type(settings).from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    "change",
    [
        {"mean": [0.5, 0.5]},
        {"mean": [0.5, 0.5, float("nan")]},
        {"std": [0.0, 1.0, 1.0]},
        {"shorter_side": 0},
        {"shorter_side": 10**6},
        {"shorter_side": 3.5},
        {"shorter_side": True},
        {"interpolation": "nearest"},
        {"size": 3},
    ],
)
def test_preprocessing_that_makes_no_sense_is_refused(change):
    with pytest.raises(InvalidSetting, match=next(iter(change))):
        ScenePreprocessing.from_dict({**PREPROCESSING.to_dict(), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"crop": 0},
        {"crop": 24.0},
        {"crop": 10**6},
        {"scale": [0.0, 1.0]},
        {"scale": [2.0, 0.5]},
        {"scale": [1.0]},
        {"scale": [1.0, float("inf")]},
        {"flip": 1},
        {"colour_jitter": 1.5},
        {"colour_jitter": -0.1},
        {"hue": 0.6},
        {"erasing": 0.5},
    ],
)
def test_augmentation_that_makes_no_sense_is_refused(change):
    with pytest.raises(InvalidSetting, match=next(iter(change))):
        SceneAugmentation.from_dict({"crop": 24, **change})


def test_missing_settings_are_named():
    with pytest.raises(InvalidSetting, match="needs mean, std"):
        ScenePreprocessing.from_dict({})
    with pytest.raises(InvalidSetting, match="needs crop"):
        SceneAugmentation.from_dict({})


@given(
    name=st.sampled_from([*PREPROCESSING.to_dict(), *AUGMENTATION.to_dict(), "else"]), value=JSON
)
def test_any_value_is_taken_or_refused_and_nothing_else(name, value):
    for settings in (PREPROCESSING, AUGMENTATION):
        try:
            taken = type(settings).from_dict({**settings.to_dict(), name: value})
        except InvalidSetting:
            continue
        assert taken.to_dict()[name] == value
