from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from dnc.data import (
    DataSplits,
    MaskCoding,
    Scenes,
    SceneSplits,
    Splits,
    default_colours,
    open_scenes,
)
from dnc.errors import InvalidData, UnreadableImage
from tests.data.scenery import blocks, coloured, draw_scenes


@pytest.fixture
def scenes(tmp_path):
    draw_scenes(tmp_path, 4)
    (tmp_path / "classes.yaml").write_text("classes: [a, b, c, d]")
    return open_scenes(tmp_path, validation_share=0).train


def test_an_image_and_its_mask_are_what_was_drawn(scenes):
    for position in range(4):
        mask = scenes.read_mask(position)
        assert mask.dtype == np.int16
        np.testing.assert_array_equal(mask, blocks(position))
        np.testing.assert_array_equal(scenes.read(position), coloured(mask))


def test_a_mask_of_another_size_is_refused_with_both_sizes(scenes):
    with pytest.raises(UnreadableImage, match=r"48 x 36 pixels.*000\.png has 48 x 37") as caught:
        scenes.read_mask(0, (48, 37))
    assert caught.value.path == scenes.mask_path(0)
    Image.fromarray(blocks(0).T.copy()).save(scenes.mask_path(0))
    for size in (None, (48, 36)):
        with pytest.raises(UnreadableImage, match=r"36 x 48 pixels.* has 48 x 36"):
            scenes.read_mask(0, size)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_size_is_that_of_the_image_as_it_is_shown(scenes, suffix, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    name = f"images/turned{suffix}"
    coloured(blocks(0)).save(scenes.root / name, exif=exif)
    turned = replace(scenes, names=(name, *scenes.names[1:]))
    size = turned.read(0).size
    assert (size == (36, 48)) == (orientation >= 5)
    if orientation >= 5:
        with pytest.raises(UnreadableImage, match="has 36 x 48"):
            turned.read_mask(0)
    else:
        assert turned.read_mask(0).shape == (36, 48)


def test_a_subset_keeps_ids_and_refuses_positions_that_are_not_there(scenes):
    part = scenes.subset(np.array([3, 1]))
    assert part.ids.tolist() == [3, 1]
    assert part.names == (scenes.names[3], scenes.names[1])
    assert part.masks == (scenes.masks[3], scenes.masks[1])
    np.testing.assert_array_equal(part.read_mask(0), blocks(3))
    for positions in ([4], [-1]):
        with pytest.raises(InvalidData, match="Positions"):
            scenes.subset(positions)


def test_the_fingerprint_changes_with_what_it_covers(scenes):
    first = scenes.fingerprint()
    assert scenes.fingerprint() == first
    changed = [
        scenes.subset([0, 1, 2]),
        scenes.subset([1, 0, 2, 3]),
        replace(scenes, ids=scenes.ids + 1),
        replace(scenes, classes=("a", "b", "c", "e")),
        replace(scenes, coding=MaskCoding.by_number(range(4), ignored=[254])),
        replace(scenes, masks=scenes.masks[::-1]),
    ]
    assert len({first, *(other.fingerprint() for other in changed)}) == 7
    assert replace(scenes, colours=default_colours(5)[1:]).fingerprint() == first
    for path in (scenes.path(2), scenes.mask_path(1)):
        before = scenes.fingerprint()
        with path.open("ab") as opened:
            opened.write(b"x")
        assert scenes.fingerprint() != before
    scenes.mask_path(0).unlink()
    with pytest.raises(UnreadableImage):
        scenes.fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        {"masks": ("a",)},
        {"ids": np.arange(3)},
        {"colours": ((0, 0, 0),)},
        {"classes": ("a", "b", "c"), "colours": default_colours(3)},
    ],
)
def test_scenes_that_do_not_fit_together_are_refused(scenes, change):
    with pytest.raises(InvalidData):
        replace(scenes, **change)


def test_parts_of_scenes_behave_as_parts_of_images_do(scenes):
    splits = SceneSplits(
        train=scenes, validation=None, test=None, set_aside=(), kind="scenes", listing=scenes.names
    )
    assert isinstance(splits, Splits)
    assert not isinstance(splits, DataSplits)
    assert splits.classes == ("a", "b", "c", "d")
    changed = replace(splits, test=scenes.subset([1]))
    assert isinstance(changed, SceneSplits)
    assert {part: len(scenes) for part, scenes in changed.parts().items()} == {
        "train": 4,
        "test": 1,
    }
    assert isinstance(changed.test, Scenes)


def test_colours_differ_from_each_other_and_from_black_and_white():
    few = np.array([(0, 0, 0), (255, 255, 255), *default_colours(20)])
    apart = np.abs(few[:, None] - few).sum(-1)
    assert apart[~np.eye(22, dtype=bool)].min() >= 64
    many = default_colours(2000)
    assert len(set(many)) == 2000
    assert np.array(many).min() >= 0
    assert np.array(many).max() <= 255


def test_more_colours_begin_with_the_same():
    assert default_colours(30)[:7] == default_colours(7)
    assert default_colours(0) == ()
    with pytest.raises(InvalidData, match="colours"):
        default_colours(10**6)
