import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnc.data import Augmentation, Preprocessing
from dnc.errors import InvalidSetting

PREPROCESSING = Preprocessing(size=24, resize=32, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
AUGMENTATION = Augmentation("resized", scale=(0.2, 0.9), randaugment=2, mixup=0.2, erasing=0.25)


@pytest.mark.parametrize("settings", [PREPROCESSING, AUGMENTATION])
def test_settings_survive_json(settings):
    assert type(settings).from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    "change",
    [
        {"size": 0},
        {"size": 33},
        {"size": True},
        {"size": 24.0},
        {"resize": 10**6},
        {"mean": [0.5, 0.5]},
        {"mean": [0.5, 0.5, float("nan")]},
        {"mean": "abc"},
        {"std": [0.0, 1.0, 1.0]},
        {"std": [1.0, 1.0, float("inf")]},
        {"std": None},
        {"interpolation": "nearest"},
        {"interpolation": []},
        {"unknown": 1},
    ],
)
def test_preprocessing_that_makes_no_sense_is_refused(change):
    with pytest.raises(InvalidSetting, match=next(iter(change))):
        Preprocessing.from_dict({**PREPROCESSING.to_dict(), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"crop": "centre"},
        {"padding": -1},
        {"scale": [0.0, 1.0]},
        {"scale": [0.9, 0.1]},
        {"ratio": [1.0]},
        {"flip": 1},
        {"colour_jitter": 1.5},
        {"randaugment": -1},
        {"randaugment_magnitude": 31},
        {"erasing": 2},
        {"mixup": -0.1},
        {"cutmix": float("inf")},
        {"mix_probability": "often"},
        {"mixupp": 1},
    ],
)
def test_augmentation_that_makes_no_sense_is_refused(change):
    with pytest.raises(InvalidSetting, match=next(iter(change))):
        Augmentation.from_dict(change)


def test_missing_settings_are_named():
    with pytest.raises(InvalidSetting, match="needs mean, resize, size, std"):
        Preprocessing.from_dict({})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(
    name=st.sampled_from([*PREPROCESSING.to_dict(), *AUGMENTATION.to_dict(), "else"]), value=JSON
)
def test_any_value_is_taken_or_refused_and_nothing_else(name, value):
    for settings in (PREPROCESSING, AUGMENTATION):
        changed = {**settings.to_dict(), name: value}
        try:
            taken = type(settings).from_dict(changed)
        except InvalidSetting:
            continue
        assert taken.to_dict()[name] == value


@given(content=JSON)
def test_anything_but_a_mapping_of_settings_is_refused(content):
    with pytest.raises(InvalidSetting):
        Preprocessing.from_dict(content)
