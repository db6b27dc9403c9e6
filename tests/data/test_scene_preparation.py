import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.nn import functional

from dnc.data import (
    IGNORED,
    SceneAugmentation,
    ScenePreprocessing,
    scene_input,
    varied_scene,
)
from dnc.errors import InvalidData
from tests.data.scenery import COLOURS, blocks, coloured

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
PLAIN = ScenePreprocessing(MEAN, STD)


def pixels_of(images):
    """Normalised images as pixels in 0..255, channels last."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    return ((images * std + mean) * 255).movedim(-3, -1)


def uniform_around(labels, reach):
    """Which pixels have no other class within reach, nor the edge of the square."""
    padded = functional.pad(labels[None].double(), (reach,) * 4, value=-1.0)
    highest = functional.max_pool2d(padded, 2 * reach + 1, stride=1)[0]
    lowest = -functional.max_pool2d(-padded, 2 * reach + 1, stride=1)[0]
    return highest == lowest


@given(
    seed=st.integers(0, 2**64 - 1),
    size=st.tuples(st.integers(20, 80), st.integers(20, 80)),
    crop=st.integers(8, 100),
    shorter_side=st.sampled_from([None, 20, 40]),
    interpolation=st.sampled_from(["bilinear", "bicubic"]),
)
@settings(max_examples=150)
def test_image_and_mask_stay_aligned_to_the_pixel(seed, size, crop, shorter_side, interpolation):
    mask = blocks(seed % 1000, size=size).astype(np.int16)
    preprocessing = ScenePreprocessing(MEAN, STD, shorter_side, interpolation)
    image, labels = varied_scene(coloured(mask), mask, preprocessing, SceneAugmentation(crop), seed)
    assert image.shape == (3, crop, crop)
    assert labels.shape == (crop, crop)
    assert labels.dtype == torch.int64
    expected = torch.tensor([*COLOURS, (0, 0, 0)], dtype=torch.float32)[labels.clamp(min=-1)]
    known = labels != IGNORED
    # Filters look at one pixel of the image, or two, on either side; that may be enlarged.
    enlarged = 2.0 * (1 if shorter_side is None else shorter_side / min(size))
    reach = 1 + math.ceil(max(1.0, enlarged)) * (1 if interpolation == "bilinear" else 2)
    inner = uniform_around(labels, reach) & known
    torch.testing.assert_close(pixels_of(image)[inner], expected[inner], atol=1.5, rtol=0)
    assert (image[:, ~known] == 0).all()  # the mean colour


def test_most_pixels_of_a_square_are_compared():
    mask = blocks(3, size=(80, 80)).astype(np.int16)
    inner = [
        uniform_around(varied_scene(coloured(mask), mask, PLAIN, SceneAugmentation(60), seed)[1], 3)
        for seed in range(20)
    ]
    assert torch.stack(inner).double().mean() > 0.3


def test_a_part_is_cut_out_of_the_scaled_whole():
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8))
    image = smooth.resize((120, 90), Image.Resampling.BICUBIC)
    mask = np.arange(120 * 90, dtype=np.int16).reshape(90, 120)
    for seed in range(30):
        augmentation = SceneAugmentation(40, scale=(0.5, 2.0), flip=False)
        scale = 0.5 + 1.5 * np.random.default_rng(seed).random(1)[0]
        size = (round(120 * scale), round(90 * scale))
        whole = np.asarray(image.resize(size, Image.Resampling.BILINEAR)).astype(np.float32)
        cut, labels = varied_scene(image, mask, PLAIN, augmentation, seed)
        got = pixels_of(cut).numpy()
        differences = [
            np.abs(whole[top : top + 40, left : left + 40] - got).max()
            for top in range(size[1] - 40 + 1)
            for left in range(size[0] - 40 + 1)
        ]
        assert min(differences) <= 3
        top, left = divmod(int(np.argmin(differences)), size[0] - 40 + 1)
        rows = ((np.arange(top, top + 40) + 0.5) * 90 / size[1]).astype(int)
        columns = ((np.arange(left, left + 40) + 0.5) * 120 / size[0]).astype(int)
        np.testing.assert_array_equal(labels, mask[rows][:, columns])


def test_every_corner_and_every_scale_comes_and_half_is_mirrored():
    y, x = np.mgrid[:30, :40]
    image = Image.fromarray(np.stack([x * 6, y * 8, x * 0], -1).astype(np.uint8))
    mask = (y * 40 + x).astype(np.int16)
    whole = [
        varied_scene(image, mask, PLAIN, SceneAugmentation(20, scale=(1, 1)), seed)
        for seed in range(2000)
    ]
    corners = {tuple(divmod(int(labels.min()), 40)) for _, labels in whole}
    assert corners == {(top, left) for top in range(11) for left in range(21)}
    mirrored = np.mean([int(labels[0, 0] > labels[0, 1]) for _, labels in whole])
    assert 0.45 < mirrored < 0.55
    for pixels, labels in whole[:50]:
        red, green = pixels_of(pixels)[..., 0].round(), pixels_of(pixels)[..., 1].round()
        assert torch.equal(labels, (green / 8 * 40 + red / 6).round().long())


def test_a_small_image_lies_anywhere_in_the_square():
    mask = np.ones((10, 10), np.int16)
    image = Image.new("RGB", (10, 10), (255, 0, 0))
    places = set()
    for seed in range(400):
        augmentation = SceneAugmentation(14, scale=(1, 1))
        pixels, labels = varied_scene(image, mask, PLAIN, augmentation, seed)
        rows, columns = torch.nonzero(labels == 1, as_tuple=True)
        assert len(rows) == 100
        assert (labels == IGNORED).sum() == 96
        places.add((int(rows.min()), int(columns.min())))
        expected = torch.tensor([255.0, 0.0, 0.0]).expand(100, 3)
        torch.testing.assert_close(pixels_of(pixels)[rows, columns], expected, atol=0.01, rtol=0)
    assert places == {(top, left) for top in range(5) for left in range(5)}


def test_shorter_side_and_scale_multiply():
    mask = blocks(0, size=(40, 20)).astype(np.int16)
    preprocessing = ScenePreprocessing(MEAN, STD, shorter_side=30)
    augmentation = SceneAugmentation(200, scale=(1.5, 1.5))
    _, labels = varied_scene(coloured(mask), mask, preprocessing, augmentation, 0)
    rows, columns = torch.nonzero(labels != IGNORED, as_tuple=True)
    assert rows.max() - rows.min() + 1 == 45
    assert columns.max() - columns.min() + 1 == 90


def test_the_seed_alone_decides():
    mask = blocks(0).astype(np.int16)
    augmentation = SceneAugmentation(24, colour_jitter=0.4, hue=0.2)

    def square(seed):
        return varied_scene(coloured(mask), mask, PLAIN, augmentation, seed)

    for one, again in zip(square(5), square(5), strict=True):
        assert torch.equal(one, again)
    assert not torch.equal(square(5)[0], square(6)[0])


def test_colours_vary_within_their_strength_and_leave_the_mask_alone():
    mask = np.zeros((30, 30), np.int16)
    image = Image.new("RGB", (30, 30), (100, 100, 100))
    still = SceneAugmentation(20, scale=(1, 1))
    bright = SceneAugmentation(20, scale=(1, 1), colour_jitter=0.3)
    greys = []
    for seed in range(200):
        pixels, labels = varied_scene(image, mask, PLAIN, bright, seed)
        assert torch.equal(labels, varied_scene(image, mask, PLAIN, still, seed)[1])
        greys.append(float(pixels_of(pixels).mean()))
    assert 69 <= min(greys) < 80
    assert 120 < max(greys) <= 131

    red = Image.new("RGB", (30, 30), (200, 50, 50))
    turned = SceneAugmentation(20, scale=(1, 1), hue=0.5)
    hues = {
        tuple(pixels_of(varied_scene(red, mask, PLAIN, turned, seed)[0])[0, 0].round().tolist())
        for seed in range(60)
    }
    assert max(green for _, green, _ in hues) > 190
    assert max(blue for _, _, blue in hues) > 190
    slightly = SceneAugmentation(20, scale=(1, 1), hue=0.02)
    for seed in range(20):
        colour = pixels_of(varied_scene(red, mask, PLAIN, slightly, seed)[0])[0, 0]
        assert colour.argmax() == 0


def test_a_whole_image_keeps_its_pixels_or_gets_its_shorter_side():
    image = coloured(blocks(0, size=(61, 47)))
    native = scene_input(image, PLAIN)
    assert native.shape == (1, 3, 47, 61)
    assert native.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(pixels_of(native)[0], np.asarray(image), atol=1e-3)
    scaled = scene_input(image, ScenePreprocessing(MEAN, STD, shorter_side=94))
    assert scaled.shape == (1, 3, 94, 122)
    expected = image.resize((122, 94), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(pixels_of(scaled)[0], np.asarray(expected), atol=1e-3)


def test_a_line_of_pixels_does_not_grow_without_bound():
    line = Image.new("RGB", (60_000, 1), (255, 0, 0))
    preprocessing = ScenePreprocessing(MEAN, STD, shorter_side=512)
    with pytest.raises(InvalidData, match="60000 x 1"):
        scene_input(line, preprocessing)
    mask = np.zeros((1, 60_000), np.int16)
    pixels, labels = varied_scene(line, mask, preprocessing, SceneAugmentation(64), 0)
    assert pixels.shape == (3, 64, 64)
    assert (labels == 0).all()
