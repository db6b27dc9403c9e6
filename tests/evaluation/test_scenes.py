import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from dnc.errors import InvalidInput, InvalidLabels, InvalidSetting
from dnc.evaluation import (
    coloured,
    comparison_sheet,
    label_image,
    legend_of,
    names,
    overlaid,
    side_by_side,
)
from dnc.evaluation.lettering import legend_image, titles_image
from dnc.evaluation.names import font_with

COLOURS = [(200, 0, 0), (0, 200, 0), (0, 0, 200), (200, 200, 0), (0, 200, 200)]
NAMES = ["sky", "road", "tree", "car", "sign"]
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


def maps(classes=5):
    shapes = arrays.array_shapes(min_dims=2, max_dims=2, max_side=12)
    return arrays.arrays(np.int64, shapes, elements=st.sampled_from([-100, -1, *range(classes)]))


def photo(width, height, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def read_back(image):
    file = io.BytesIO()
    image.save(file, format="PNG")
    return Image.open(file)


def colours_in(image):
    return {colour for _, colour in image.convert("RGB").getcolors(image.width * image.height)}


@given(maps())
def test_each_pixel_has_the_colour_of_its_class_and_black_without_one(labels):
    pixels = np.asarray(coloured(labels, COLOURS))
    assert pixels.shape == (*labels.shape, 3)
    for place, label in np.ndenumerate(labels):
        assert tuple(pixels[place]) == (COLOURS[label] if label >= 0 else BLACK)


def test_no_class_is_white_where_black_is_that_of_a_class():
    labels = np.array([[0, 1, -1]])
    image = coloured(labels, [BLACK, (9, 9, 9)])
    assert np.asarray(image)[0].tolist() == [[0, 0, 0], [9, 9, 9], [255, 255, 255]]
    assert legend_of([labels], ["a", "b"], [BLACK, (9, 9, 9)])[-1] == ("no class", WHITE)


@given(maps())
def test_every_colour_of_a_map_is_in_the_legend_and_no_other(labels):
    legend = legend_of([labels], NAMES, COLOURS)
    assert {colour for _, colour in legend} == colours_in(coloured(labels, COLOURS))
    expected = [NAMES[number] for number in range(5) if (labels == number).any()]
    assert [name for name, _ in legend] == expected + ["no class"] * bool((labels < 0).any())


def test_the_legend_of_several_maps_has_the_classes_of_all_once():
    first, second = np.array([[0, 3]]), np.array([[3], [1], [1]])
    legend = legend_of([first, second], NAMES, COLOURS)
    assert legend == [(NAMES[number], COLOURS[number]) for number in (0, 1, 3)]


@given(maps(), st.floats(0, 1))
def test_an_overlay_has_the_size_of_its_image(labels, strength):
    height, width = labels.shape
    assert overlaid(photo(width, height), labels, COLOURS, strength=strength).size == (
        width,
        height,
    )


def test_an_overlay_is_a_mixture_of_image_and_colour_by_its_strength():
    labels = np.full((6, 7), 2)
    image = photo(7, 6)
    full = np.asarray(overlaid(image, labels, COLOURS, strength=1), dtype=int)
    none = np.asarray(overlaid(image, labels, COLOURS, strength=0), dtype=int)
    half = np.asarray(overlaid(image, labels, COLOURS, strength=0.5), dtype=int)
    assert (full == COLOURS[2]).all()
    assert (none == none[..., :1]).all(), "without colours the image is grey"
    grey = np.asarray(image.convert("L"), dtype=int)
    assert (np.diff(none[..., 0].flatten()[grey.flatten().argsort()]) >= 0).all()
    assert (abs(half - (full + none) / 2) <= 1).all()


def test_borders_are_drawn_between_regions_and_nowhere_else():
    labels = np.zeros((8, 8), dtype=np.int32)
    labels[3:, 2:] = 1
    grey = Image.new("RGB", (8, 8), (100, 100, 100))
    drawn = np.asarray(overlaid(grey, labels, [(40, 40, 40), (40, 40, 40)]))[..., 0]
    expected = np.zeros((8, 8), dtype=bool)
    expected[2, 2:] = True
    expected[3:, 1] = True
    np.testing.assert_array_equal(drawn > drawn.min(), expected)


@pytest.mark.parametrize("colours", [(), COLOURS, [(i, 0, 0) for i in range(255)]])
@given(labels=maps())
def test_a_label_image_read_back_gives_the_labels_exactly(colours, labels):
    read = read_back(label_image(labels, colours))
    assert read.mode == ("P" if colours else "L")
    np.testing.assert_array_equal(np.asarray(read), np.where(labels < 0, 255, labels))


@given(maps())
def test_a_label_image_looks_like_the_coloured_one(labels):
    read = read_back(label_image(labels, COLOURS)).convert("RGB")
    np.testing.assert_array_equal(np.asarray(read), np.asarray(coloured(labels, COLOURS)))


@pytest.mark.parametrize("colours", [(), [(i % 256, i // 256, 0) for i in range(1000)]])
def test_more_than_255_classes_make_16_bits(colours):
    labels = np.array([[0, 254, 255], [256, 999, -100]])
    read = read_back(label_image(labels, colours))
    assert read.mode == "I;16"
    np.testing.assert_array_equal(np.asarray(read), np.where(labels < 0, 65535, labels))


def test_the_number_of_colours_and_not_the_map_decides_the_form_of_a_data_set():
    few = np.zeros((2, 2), dtype=int)
    assert label_image(few, [(i % 256, i // 256, 0) for i in range(256)]).mode == "I;16"
    assert label_image(few, [(i, 0, 0) for i in range(255)]).mode == "P"


def test_a_class_255_is_never_taken_for_no_class():
    assert label_image(np.array([[254]])).mode == "L"
    assert label_image(np.array([[255]])).mode == "I;16"


@pytest.mark.parametrize("size", [(480, 360), (480, 300), (20, 32), (300, 400)])
def test_panels_stand_beside_each_other_as_they_are_or_enlarged(size):
    width, height = size
    image = photo(width, height)
    labels = np.random.default_rng(0).integers(-1, 5, (height, width))
    sheet = np.asarray(side_by_side([("input", image), ("truth", coloured(labels, COLOURS))]))
    factor = -(-180 // height)
    for panel, left in ((image, 8), (coloured(labels, COLOURS), 16 + width * factor)):
        pixels = np.asarray(panel).repeat(factor, 0).repeat(factor, 1)
        part = sheet[-8 - height * factor : -8, left : left + width * factor]
        np.testing.assert_array_equal(part, pixels)


def test_large_panels_are_reduced_without_mixing_the_colours_of_classes():
    labels = np.random.default_rng(0).integers(0, 5, (40, 80)).repeat(25, 0).repeat(25, 1)
    sheet = side_by_side([("", coloured(labels, COLOURS)), ("", photo(50, 1000))])
    truth = sheet.crop((8, sheet.height - 488, 968, sheet.height - 8))
    assert colours_in(truth) == set(COLOURS)
    assert sheet.width == 960 + 24 + 3 * 8


def test_panels_of_different_sizes_get_equal_heights():
    red, green = Image.new("RGB", (300, 200), COLOURS[0]), Image.new("RGB", (90, 30), COLOURS[1])
    sheet = np.asarray(side_by_side([("a", red), ("b", green)]))
    for colour in COLOURS[:2]:
        places = np.argwhere((sheet == colour).all(-1))
        assert np.ptp(places[:, 0]) + 1 == 200
        assert places[:, 0].max() == len(sheet) - 8 - 1


@pytest.mark.parametrize("count", [1, 5, 12, 150])
@pytest.mark.parametrize("width", [200, 980, 1960])
def test_every_class_of_a_legend_is_drawn_within_it(count, width):
    rng = np.random.default_rng(count)
    colours = [tuple(colour) for colour in rng.choice(200, (count, 3)).tolist()]
    legend = [(f"class number {n}, " + "long " * n, colour) for n, colour in enumerate(colours)]
    drawn = legend_image(legend, width=width, size=15)
    assert drawn.width == width
    found = {colour: number for number, colour in drawn.getcolors(drawn.width * drawn.height)}
    field = (24 - 2) * (15 - 2)
    assert all(found.get(colour, 0) >= field for colour in colours)
    edges = np.asarray(drawn)[:, -1]
    assert (edges == 255).all(), "no name is cut off"


def test_a_legend_takes_no_more_lines_than_it_must():
    legend = [(name, COLOURS[0]) for name in NAMES]
    one, more = (legend_image(legend * times, width=900, size=16).height for times in (1, 6))
    assert one == 24
    assert one < more < 30 * one


def test_the_legend_stands_below_the_panels_and_changes_nothing_above():
    panels = [("input", photo(300, 200)), ("truth", photo(300, 200, seed=1))]
    without = side_by_side(panels)
    whole = side_by_side(panels, legend=[("sky", (1, 2, 3))])
    assert whole.width == without.width
    assert whole.crop((0, 0, *without.size)).tobytes() == without.tobytes()
    assert (1, 2, 3) in colours_in(whole.crop((0, without.height, *whole.size)))


def test_a_sheet_shows_the_titles_once_above_rows_of_panels():
    rows = [
        [("input", photo(300, 200, seed)), ("DNC", photo(300, 200, seed + 9))] for seed in (1, 2)
    ]
    sheet, first, second = comparison_sheet(rows), side_by_side(rows[0]), side_by_side(rows[1])
    assert sheet.size == (first.width, first.height + 208)
    assert sheet.crop((0, 0, *first.size)).tobytes() == first.tobytes()
    lower = (0, first.height, *sheet.size)
    last = (0, second.height - 208, *second.size)
    assert sheet.crop(lower).tobytes() == second.crop(last).tobytes()


def test_titles_are_in_the_middle_of_their_columns_and_never_reach_into_others():
    line = np.asarray(titles_image(["input", "long " * 40], [400, 200], size=20).convert("L"))
    ink = np.flatnonzero((line < 200).any(axis=0))
    first, second = ink[ink < 404], ink[ink >= 404]
    assert abs(first.min() + first.max() - 399) <= 4
    assert second.min() >= 408
    assert second.max() < 608
    assert len(second) > 100


def test_a_panel_may_be_without_a_title():
    line = np.asarray(titles_image(["", "input"], [200, 200], size=20))
    assert (line[:, :208] == 255).all()
    assert (line[:, 208:] < 255).any()


@pytest.mark.parametrize(
    "name", ["猫", "", "😀", "\x00\x1b", "a\nb\tc", "\U0010fff0", "кошка $x_2^$"]
)
def test_names_in_any_script_can_be_drawn(name):
    side_by_side([(name, photo(200, 180))], legend=[(name, COLOURS[0])])


def test_a_name_is_drawn_with_the_first_font_that_has_the_most_of_its_characters(monkeypatch):
    fonts = {"latin": "sky", "cyrillic": "skyкшф", "chinese": "sky猫"}
    characters = {name: frozenset(map(ord, letters)) for name, letters in fonts.items()}
    monkeypatch.setattr(names, "_fonts", lambda: characters)
    assert [font_with(text) for text in ("", "sky", "кшф", "sky 猫", "ж")] == [
        *("latin", "latin", "cyrillic", "chinese", "latin")
    ]


def test_drawing_changes_neither_labels_nor_images():
    labels = np.random.default_rng(0).integers(-1, 5, (30, 40))
    image = photo(40, 30)
    before = labels.copy(), image.tobytes()
    side_by_side([("a", image), ("b", overlaid(image, labels, COLOURS))])
    label_image(labels, COLOURS)
    legend_of([labels], NAMES, COLOURS)
    np.testing.assert_array_equal(labels, before[0])
    assert image.tobytes() == before[1]


GOOD = np.array([[0, 1], [-1, 4]])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (GOOD.tolist(), "list"),
        (GOOD.astype(float), "float64"),
        (GOOD[0], r"\(2,\)"),
        (GOOD[:0], r"\(0, 2\)"),
        (GOOD + 1, "reach 5; allowed are 0 to 4"),
        (np.where(GOOD < 0, 255, GOOD).astype(np.uint8), "reach 255"),
    ],
)
def test_labels_that_cannot_be_shown_are_refused(labels, message):
    for picture in (
        lambda: coloured(labels, COLOURS),
        lambda: overlaid(photo(2, 2), labels, COLOURS),
        lambda: label_image(labels, COLOURS),
        lambda: legend_of([labels], NAMES, COLOURS),
    ):
        with pytest.raises(InvalidLabels, match=message):
            picture()


@pytest.mark.parametrize("colours", [[(0, 0, 256)] * 5, [(-1, 0, 0)] * 5])
def test_colours_that_are_none_are_refused(colours):
    with pytest.raises(InvalidInput, match="from 0 to 255"):
        coloured(GOOD, colours)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(InvalidInput, match="3 x 2 pixels, the labels 2 x 2"):
        overlaid(photo(3, 2), GOOD, COLOURS)
    with pytest.raises(InvalidSetting, match=r"strength is 1\.5"):
        overlaid(photo(2, 2), GOOD, COLOURS, strength=1.5)
    with pytest.raises(InvalidInput, match="no picture"):
        side_by_side([])
    with pytest.raises(InvalidInput, match="no picture"):
        comparison_sheet([])
    one, other = [("a", photo(9, 9))], [("b", photo(9, 9))]
    with pytest.raises(InvalidInput, match=r"Row 2 has the titles \['b'\]"):
        comparison_sheet([one, other])
