import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image
from scipy.io import savemat

from dnc.data import IGNORED, MaskCoding, colour_picture, read_mask
from dnc.errors import InvalidData, UnreadableImage

LABELS = np.array([[0, 1, 2], [3, 255, 1]], np.uint8)
CLASSES = [[0, 1, 2], [3, IGNORED, 1]]
FOUR = MaskCoding.by_number(range(4))
PAINT = ((0, 0, 0), (255, 0, 0), (0, 0, 255), (7, 8, 9))


def palette_image(labels):
    image = Image.fromarray(labels, "P")
    image.putpalette([value for colour in (*PAINT, *[(9, 9, 9)] * 252) for value in colour])
    return image


WRITTEN = {
    "grey.png": Image.fromarray(LABELS),
    "palette.png": palette_image(LABELS),
    "palette.bmp": palette_image(LABELS),
    "sixteen.png": Image.fromarray(LABELS.astype(np.uint16)),
    "sixteen.tif": Image.fromarray(LABELS.astype(np.uint16)),
    "thirty-two.tif": Image.fromarray(LABELS.astype(np.int32)),
    "rgb.png": Image.fromarray(LABELS).convert("RGB"),
    "rgba.png": Image.fromarray(LABELS).convert("RGBA"),
    "la.png": Image.fromarray(LABELS).convert("LA"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_numbers_are_read_whatever_the_format(tmp_path, name):
    WRITTEN[name].save(tmp_path / name)
    mask = read_mask(tmp_path / name, FOUR)
    assert mask.dtype == np.int16
    assert mask.tolist() == CLASSES


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.float64])
def test_arrays_of_matlab_are_read_as_numbers(tmp_path, kind):
    savemat(tmp_path / "x.mat", {"S": LABELS.astype(kind), "names": ["a", "b"]})
    assert read_mask(tmp_path / "x.mat", FOUR).tolist() == CLASSES


def test_bits_are_the_classes_0_and_1(tmp_path):
    bits = np.array([[True, False], [False, True]])
    Image.fromarray(bits).save(tmp_path / "bits.png")
    assert read_mask(tmp_path / "bits.png", MaskCoding.by_number(range(2))).tolist() == [
        [1, 0],
        [0, 1],
    ]


def test_values_beyond_8_bits_are_told_apart(tmp_path):
    labels = np.array([[0, 256, 300, 65535]], np.uint16)
    Image.fromarray(labels).save(tmp_path / "x.png")
    coding = MaskCoding.by_number([300, 256, 0], ignored=[65535])
    assert read_mask(tmp_path / "x.png", coding).tolist() == [[2, 1, 0, IGNORED]]
    Image.fromarray(np.array([[70_000, -2, -100]], np.int32)).save(tmp_path / "x.tif")
    with pytest.raises(
        UnreadableImage, match=r"label 70000 at 1 pixel, .* other unknown ones at 2"
    ):
        read_mask(tmp_path / "x.tif", coding)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_by_colour_the_colours_count_and_not_the_indices(tmp_path, mode):
    labels = np.array([[0, 1], [3, 2]], np.uint8)
    palette_image(labels).convert(mode).save(tmp_path / "x.png")
    coding = MaskCoding.by_colour([PAINT[3], PAINT[1], PAINT[0]], ignored=[PAINT[2]])
    assert read_mask(tmp_path / "x.png", coding).tolist() == [[2, 1], [0, IGNORED]]


def test_the_order_in_which_colours_are_said_does_not_matter(tmp_path):
    palette_image(np.array([[0, 1], [3, 2]], np.uint8)).save(tmp_path / "x.png")
    coding = MaskCoding(colours=((PAINT[1], 0), (PAINT[0], 1), (PAINT[3], 2), (PAINT[2], 3)))
    assert read_mask(tmp_path / "x.png", coding).tolist() == [[1, 0], [2, 3]]


@pytest.mark.parametrize("mode", ["L", "1"])
def test_by_colour_grey_is_a_colour(tmp_path, mode):
    Image.fromarray(np.array([[0, 255]], np.uint8)).convert(mode).save(tmp_path / "x.png")
    coding = MaskCoding.by_colour([(255, 255, 255), (0, 0, 0)])
    assert read_mask(tmp_path / "x.png", coding).tolist() == [[1, 0]]


@given(
    labels=arrays.arrays(np.uint8, (2, 3), elements=st.integers(250, 255)),
    values=st.permutations(range(250, 256)).flatmap(lambda v: st.sampled_from([v, v[:5], v[:3]])),
    ignored=st.lists(st.integers(250, 255), max_size=3),
)
def test_reading_matches_a_loop_over_the_pixels(tmp_path_factory, labels, values, ignored):
    assume(set(values) - set(ignored))
    path = tmp_path_factory.mktemp("masks") / "x.png"
    Image.fromarray(labels).save(path)
    coding = MaskCoding.by_number(values, ignored=ignored)
    expected = [
        [
            IGNORED if v in ignored else values.index(v) if v in values else None
            for v in row.tolist()
        ]
        for row in labels
    ]
    if any(None in row for row in expected):
        with pytest.raises(UnreadableImage):
            read_mask(path, coding)
    else:
        assert read_mask(path, coding).tolist() == expected


def test_unknown_labels_are_told_with_their_place_and_what_is_allowed(tmp_path):
    labels = np.zeros((10, 12), np.uint8)
    labels[5, 7:10] = 200
    Image.fromarray(labels).save(tmp_path / "x.png")
    with pytest.raises(UnreadableImage) as caught:
        read_mask(tmp_path / "x.png", MaskCoding.by_number(range(11), ignored=[11, 255]))
    assert caught.value.path == tmp_path / "x.png"
    assert caught.value.reason == (
        "label 200 at 3 pixels, first at row 5, column 7; allowed are 0 to 10, and 11 or 255 for "
        "pixels without a class"
    )
    with pytest.raises(UnreadableImage, match=r"allowed are 0, 7, 9$"):
        read_mask(tmp_path / "x.png", MaskCoding.by_number([0, 7, 9], ignored=[]))


def test_unknown_colours_are_told_with_their_place(tmp_path):
    pixels = np.zeros((4, 4, 3), np.uint8)
    pixels[2, 1] = (1, 2, 3)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    with pytest.raises(
        UnreadableImage, match=r"colour \(1, 2, 3\) at 1 pixel, first at row 2, column 1"
    ):
        read_mask(tmp_path / "x.png", MaskCoding.by_colour([(0, 0, 0), (255, 255, 255)]))


def write_strange(path):
    grey = Image.fromarray(np.random.default_rng(0).integers(0, 4, (64, 64), np.uint8))
    arrays_of_matlab = {
        "other.mat": {"T": LABELS},
        "deep.mat": {"S": np.zeros((2, 2, 2))},
        "half.mat": {"S": np.full((2, 2), 0.5)},
    }
    if path.name in arrays_of_matlab:
        savemat(path, arrays_of_matlab[path.name])
    elif path.name == "coloured.png":
        Image.new("RGB", (4, 4), (1, 2, 3)).save(path)
    elif path.name == "float.tif":
        Image.fromarray(np.zeros((4, 4), np.float32)).save(path)
    elif path.name in ("lossy.jpg", "hidden.png"):  # a JPEG, whatever its extension says
        grey.save(path, format="JPEG")
    elif path.name == "cut.png":
        grey.save(path)
        path.write_bytes(path.read_bytes()[:200])
    elif not path.name.startswith("absent"):
        path.write_text("hello" if path.stem == "text" else "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("coloured.png", "numbers are wanted"),
        ("float.tif", "mode F"),
        ("lossy.jpg", "JPEG"),
        ("hidden.png", "JPEG"),
        ("cut.png", "truncated"),
        ("empty.png", "empty"),
        ("absent.png", "no such file"),
        ("absent.mat", "no such file"),
        ("text.mat", "truncated"),
        ("other.mat", "array S"),
        ("deep.mat", "array S"),
        ("half.mat", "whole"),
    ],
)
def test_what_is_no_mask_is_refused_with_its_path(tmp_path, name, said):
    write_strange(tmp_path / name)
    with pytest.raises(UnreadableImage, match=said) as caught:
        read_mask(tmp_path / name, FOUR)
    assert caught.value.path == tmp_path / name
    assert caught.value.reason


def test_numbers_where_colours_are_wanted_are_refused(tmp_path):
    coding = MaskCoding.by_colour(PAINT)
    savemat(tmp_path / "x.mat", {"S": LABELS})
    Image.fromarray(LABELS.astype(np.uint16)).save(tmp_path / "x.png")
    for name in ("x.mat", "x.png"):
        with pytest.raises(UnreadableImage):
            read_mask(tmp_path / name, coding)


@pytest.mark.parametrize(
    "pairs",
    [
        {},
        {"numbers": ((0, 0),), "colours": (((0, 0, 0), 0),)},
        {"numbers": ((0, IGNORED),)},
        {"numbers": ((-1, 0),)},
        {"numbers": ((70_000, 0),)},
        {"numbers": ((0, -5),)},
        {"numbers": ((0, 40_000),)},
        {"colours": (((0, 0, 256), 0),)},
    ],
)
def test_a_coding_that_makes_no_sense_is_refused(pairs):
    with pytest.raises(InvalidData):
        MaskCoding(**pairs)


def test_a_mask_is_painted_in_the_colours_of_its_classes():
    mask = np.array([[0, 1], [IGNORED, 1]], np.int16)
    painted = np.asarray(colour_picture(mask, [(1, 2, 3), (4, 5, 6)], ignored=(7, 8, 9)))
    assert painted.tolist() == [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [4, 5, 6]]]
