import os
import threading
import warnings
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dnc.data import image_from_array, read_image
from dnc.data.images import decode_image, read_header
from dnc.errors import InvalidData, UnreadableImage
from tests.data.drawings import bomb_png, drawing


def pixels_of(path):
    image = read_image(path)
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_with_any_orientation_is_read_upright(tmp_path, orientation):
    upright = np.asarray(drawing(1, 0))[:20, :, :].copy()
    upright[:4, :8] = 255
    # What a camera stores so that the stated orientation shows it upright again.
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: np.rot90(upright, 2).transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "photo.png"
    Image.fromarray(np.ascontiguousarray(stored)).save(path, exif=exif)
    np.testing.assert_array_equal(pixels_of(path), upright)


def test_metadata_is_not_applied_a_second_time(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    drawing(0, 0).save(tmp_path / "photo.jpg", exif=exif)
    image = read_image(tmp_path / "photo.jpg")
    assert not image.info
    assert 0x0112 not in image.getexif()


def test_greyscale_and_one_bit_become_equal_channels(tmp_path):
    grey = drawing(0, 0).convert("L")
    grey.save(tmp_path / "grey.png")
    grey.convert("1").save(tmp_path / "bits.png")
    expected = np.repeat(np.asarray(grey)[..., None], 3, axis=2)
    np.testing.assert_array_equal(pixels_of(tmp_path / "grey.png"), expected)
    assert set(np.unique(pixels_of(tmp_path / "bits.png"))) == {0, 255}


@pytest.mark.parametrize("extension", ["png", "tif", "pgm"])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path, extension):
    deep = np.array([[0, 257, 25_700], [32_768, 65_278, 65_535]], dtype=np.uint16)
    path = tmp_path / f"deep.{extension}"
    Image.fromarray(deep).save(path)
    np.testing.assert_array_equal(pixels_of(path)[..., 0], [[0, 1, 100], [128, 254, 255]])


def test_transparent_pixels_are_laid_on_white(tmp_path):
    rgba = np.zeros((1, 3, 4), np.uint8)
    rgba[0, :, 0] = 200
    rgba[0, :, 3] = (0, 128, 255)
    Image.fromarray(rgba).save(tmp_path / "alpha.png")
    read = pixels_of(tmp_path / "alpha.png")
    np.testing.assert_array_equal(read[0, 0], [255, 255, 255])
    np.testing.assert_allclose(read[0, 1], [227, 127, 127], atol=1)
    np.testing.assert_array_equal(read[0, 2], [200, 0, 0])


def test_palettes_with_and_without_transparency_keep_their_colours(tmp_path):
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.putpixel((1, 0), 1)
    palette.save(tmp_path / "opaque.png")
    palette.save(tmp_path / "key.png", transparency=0)
    palette.save(tmp_path / "bytes.png", transparency=b"\0\xff")
    np.testing.assert_array_equal(
        pixels_of(tmp_path / "opaque.png")[0], [[10, 20, 30], [200, 100, 50]]
    )
    for name in ("key.png", "bytes.png"):
        np.testing.assert_array_equal(
            pixels_of(tmp_path / name)[0], [[255, 255, 255], [200, 100, 50]]
        )


def test_cmyk_becomes_rgb(tmp_path):
    Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(tmp_path / "print.tif")
    np.testing.assert_array_equal(pixels_of(tmp_path / "print.tif")[0, 0], [255, 0, 0])


def test_floating_point_images_are_read_in_0_to_1_and_refused_beyond(tmp_path):
    Image.fromarray(np.array([[0, 0.5, 1]], np.float32)).save(tmp_path / "unit.tif")
    Image.fromarray(np.array([[0, 0.5, 3]], np.float32)).save(tmp_path / "beyond.tif")
    np.testing.assert_array_equal(pixels_of(tmp_path / "unit.tif")[0, :, 0], [0, 128, 255])
    with pytest.raises(UnreadableImage, match=r"0\.\.1"):
        read_image(tmp_path / "beyond.tif")


def test_of_an_animation_the_first_frame_is_read(tmp_path):
    frames = [Image.new("RGB", (3, 3), colour) for colour in ("red", "green")]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(pixels_of(tmp_path / "moving.gif")[0, 0], [255, 0, 0])


def test_one_pixel_is_an_image(tmp_path):
    Image.new("RGB", (1, 1), (12, 34, 56)).save(tmp_path / "one.png")
    np.testing.assert_array_equal(pixels_of(tmp_path / "one.png"), [[[12, 34, 56]]])


def test_what_cannot_be_decoded_says_why(tmp_path):
    drawing(0, 0, size=96).save(tmp_path / "whole.jpg", quality=95)
    content = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "truncated.jpg").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.jpg").write_text("hello")
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "script.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    os.mkfifo(tmp_path / "pipe.jpg")
    reasons = {
        "truncated.jpg": "truncated",
        "text.jpg": "not an image",
        "empty.jpg": "empty",
        "script.jpg": "not an image",
        "pipe.jpg": "regular",
        "none.jpg": "no such file",
    }
    for name, reason in reasons.items():
        with pytest.raises(UnreadableImage, match=reason) as caught:
            read_image(tmp_path / name)
        assert caught.value.path == tmp_path / name
    with pytest.raises(UnreadableImage, match="empty"):
        decode_image(b"", "empty")


def test_a_bomb_is_refused_by_its_header(tmp_path):
    bomb = tmp_path / "bomb.png"
    # Above Pillow's own limit, between its warning and its limit, and above a limit of our own.
    for side, limit in ((50_000, 10**12), (10_100, 100_000_000), (101, 10_000)):
        bomb.write_bytes(bomb_png(side, side))
        for function in (read_image, read_header):
            with pytest.raises(UnreadableImage, match="pixels"):
                function(bomb, max_pixels=limit)
    bomb.write_bytes(bomb_png(9_900, 9_900))
    assert read_header(bomb).width == 9_900  # Pillow warns of so many; they are allowed here
    assert Image.MAX_IMAGE_PIXELS == 89_478_485


def test_the_header_says_format_and_size_without_decoding(tmp_path):
    drawing(0, 0, size=96).save(tmp_path / "whole.jpg", quality=95)
    content = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(content[: len(content) // 2])
    header = read_header(tmp_path / "cut.jpg")
    assert (header.format, header.width, header.height) == ("JPEG", 96, 96)


def test_a_reduced_jpeg_keeps_twice_the_side_that_is_needed_and_looks_the_same(tmp_path):
    smooth = drawing(1, 0, size=16).resize((1600, 1200), Image.Resampling.BICUBIC)
    smooth.save(tmp_path / "large.jpg", quality=95)
    whole = read_image(tmp_path / "large.jpg")
    reduced = read_image(tmp_path / "large.jpg", shorter_side=128)
    assert whole.size == (1600, 1200)
    assert 256 <= min(reduced.size) < 1200
    small = [np.asarray(image.resize((128, 96))).astype(int) for image in (whole, reduced)]
    assert np.abs(small[0] - small[1]).mean() < 1


def test_threads_restore_the_filters_of_warnings(tmp_path):
    drawing(0, 0).save(tmp_path / "a.png")
    before = list(warnings.filters)
    threads = [
        threading.Thread(target=lambda: [read_image(tmp_path / "a.png") for _ in range(30)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["png", "jpeg", "gif", "tiff", "webp", "bmp"]),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=12),
    kept=st.floats(0.05, 1),
)
def test_damaged_files_are_read_or_refused_and_nothing_else(tmp_path_factory, kind, changes, kept):
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "image"
    drawing(0, 0, size=24).save(path, format=kind)
    content = bytearray(path.read_bytes())
    for place, value in changes:
        content[int(place * (len(content) - 1))] = value
    path.write_bytes(content[: max(1, int(kept * len(content)))])
    with suppress(UnreadableImage):
        assert read_image(path).mode == "RGB"


def test_arrays_of_all_allowed_types_give_the_same_image():
    pixels = np.asarray(drawing(0, 0))
    tensor = torch.from_numpy(pixels.copy()).permute(2, 0, 1)
    for array in (
        pixels,
        pixels.astype(np.uint16) * 257,
        pixels / 255,
        (pixels / 255).astype(np.float32),
        np.concatenate([pixels, np.full((32, 32, 1), 255, np.uint8)], axis=2),
        tensor,
        tensor.float() / 255,
    ):
        np.testing.assert_array_equal(np.asarray(image_from_array(array)), pixels)


def test_arrays_of_one_channel_become_grey():
    grey = np.asarray(drawing(0, 0).convert("L"))
    expected = np.repeat(grey[..., None], 3, axis=2)
    for array in (grey, grey[..., None], torch.from_numpy(grey.copy())[None]):
        np.testing.assert_array_equal(np.asarray(image_from_array(array)), expected)
    half = torch.full((1, 2, 2), 0.5, dtype=torch.bfloat16)
    assert np.asarray(image_from_array(half))[0, 0, 0] == 128
    assert np.asarray(image_from_array(np.array([[True]])))[0, 0, 0] == 255


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4, 2), np.uint8),
        np.zeros(4, np.uint8),
        np.zeros((0, 4), np.uint8),
        np.full((4, 4), 2.0),
        np.full((4, 4), np.nan),
        np.zeros((4, 4), np.int64),
        np.zeros((4, 4), np.complex64),
        torch.zeros(5, 4, 4),
    ],
)
def test_arrays_that_are_no_images_are_refused(array):
    with pytest.raises(InvalidData):
        image_from_array(array)
