import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

import dnc
from benchmarks.pixel_truth import truth_of_image, truth_of_scenes
from dnc.data import default_colours, open_scenes
from dnc.errors import InvalidInput, InvalidModel
from dnc.explanation import scenes as scenes_module
from dnc.explanation.regions import outlines
from dnc.explanation.scene_explanation import SceneExplanation
from dnc.explanation.scene_pictures import (
    numbered,
    page_size,
    scaled_map,
    with_cases,
    with_classes,
    with_mistakes,
)
from dnc.explanation.scenes import ExplainedScene, SceneExplainer, case_colours
from dnc.explanation.shades import shades
from dnc.models import Views
from dnc.scene_recognition import Segmentation
from tests.cli.commands import refused, run
from tests.data.scenery import draw_scenes
from tests.explanation.scene_models import drawn_scene_recognizer

SMALL_MAPS = arrays.arrays(
    np.uint16, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 3)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("scenes")
    draw_scenes(root, 6, part="train")
    draw_scenes(root, 3, part="test", seed=1, size=(67, 45))
    return root


@pytest.fixture(scope="module")
def recognizer(folder):
    return drawn_scene_recognizer(folder)


@pytest.fixture(scope="module")
def queries(folder):
    scenes = open_scenes(folder).test
    return [(name, scenes.read(position)) for position, name in enumerate(scenes.names)]


@pytest.fixture(scope="module")
def explanation(recognizer, queries):
    return SceneExplanation.of(recognizer, queries)


def segmentation(labels, subcentroids, similarity=None):
    labels = np.asarray(labels, dtype=np.int16)
    return Segmentation(
        "made",
        Image.new("RGB", labels.shape[::-1]),
        labels,
        np.asarray(subcentroids, dtype=np.int16),
        np.zeros(labels.shape, np.float32) if similarity is None else similarity,
    )


@pytest.mark.parametrize("is_anchored", [False, True])
@pytest.mark.parametrize(("shorter_side", "keep_length"), [(None, False), (61, False), (61, True)])
@pytest.mark.parametrize("views", [Views(), Views(window=24, flip=True, scales=(0.8, 1.0))])
def test_the_case_of_every_pixel_is_the_nearest_by_brute_force(
    folder, is_anchored, shorter_side, keep_length, views
):
    made = drawn_scene_recognizer(
        folder, is_anchored=is_anchored, shorter_side=shorter_side, keep_length=keep_length
    )
    truth = truth_of_scenes(replace(made, views=views), open_scenes(folder).test)
    assert truth.pixels == truth.same_class == 3 * 67 * 45
    assert truth.nearest + truth.tied == truth.pixels
    assert truth.tied < truth.pixels / 1000
    assert made.cases.is_anchored == is_anchored


def test_a_lie_would_be_found(recognizer, queries):
    class Liar(SceneExplainer):
        def explained(self, segmentation):
            one = super().explained(segmentation)
            return ExplainedScene(segmentation, np.roll(one.numbers, 9, axis=1), one.cases)

    truth = truth_of_image(recognizer, Liar(recognizer), queries[0][1])
    assert truth.nearest + truth.tied < 0.9 * truth.pixels
    assert truth.same_class < 0.9 * truth.pixels
    assert truth.largest_gap > 1e-3


def test_each_case_has_the_pixels_it_decided_with_their_mean_cosine(recognizer, explanation):
    for one in explanation.images:
        found = one.segmentation
        counted = {}
        for label, subcentroid, cosine in zip(
            found.labels.flat, found.subcentroids.flat, found.similarity.flat, strict=True
        ):
            counted.setdefault((label, subcentroid), []).append(float(cosine))
        assert {(case.label, case.subcentroid) for case in one.cases} == set(counted)
        for case in one.cases:
            cosines = counted[case.label, case.subcentroid]
            assert case.pixels == len(cosines)
            assert case.similarity == pytest.approx(np.mean(cosines), abs=1e-6)
            assert case.share == pytest.approx(len(cosines) / found.labels.size)
        pixels = [case.pixels for case in one.cases]
        assert pixels == sorted(pixels, reverse=True)
        assert sum(pixels) == found.labels.size


def test_the_middle_of_a_case_lies_deepest_in_its_largest_region(recognizer):
    labels = np.zeros((20, 30), dtype=np.int16)
    labels[2:9, 3:10] = 1  # 49 pixels around (5, 6)
    labels[12:14, 1:25] = 1  # 48 pixels
    labels[0:3, 20:29] = 2  # 27 pixels, at the border of the image
    one = SceneExplainer(recognizer).explained(segmentation(labels, np.zeros_like(labels)))
    middles = {case.label: case.middle for case in one.cases}
    assert middles[1] == (5, 6)
    assert middles[2] == (1, 24)
    assert all(labels[middle] == label for label, middle in middles.items())


def test_json_and_png_together_say_the_case_of_every_pixel(recognizer, explanation, tmp_path):
    files = explanation.save(tmp_path, forms=("json",))
    assert [file.name for file in files] == [
        "explanation.json",
        *(f"explanation-{number}.cases.png" for number in (1, 2, 3)),
    ]
    tree = json.loads(files[0].read_text())
    cases = tree["model"]["cases"]
    assert [case["index"] for case in cases] == list(range(1, len(cases) + 1))
    assert tree["model"]["cases_are_places"] is False
    known = {recognizer.case_name(c.label, c.subcentroid): c for c in recognizer.cases.cases}
    for case in cases:
        place = known[case["case"]]
        assert case["file"] == place.file
        assert case["sha256"] == place.sha256
        assert tuple(case["at"]) == place.at
    for image, one in zip(tree["images"], explanation.images, strict=True):
        with Image.open(tmp_path / image["cases_png"]) as picture:
            assert picture.mode == "I;16"
            assert picture.size == (image["width"], image["height"])
            numbers = np.array(picture).astype(int)
        names = np.array([None, *(case["class"] for case in cases)])[numbers]
        told = np.array(recognizer.classes)[recognizer.labels(one.segmentation.image)]
        assert (names == told).all()
        counts = dict(zip(*np.unique(numbers, return_counts=True), strict=True))
        assert {case["index"]: case["pixels"] for case in image["cases"]} == counts


def test_numbers_of_more_than_eight_bits_are_kept(recognizer, queries, monkeypatch):
    explainer = SceneExplainer(recognizer)
    one = explainer.explained(recognizer.segmented("", queries[0][1]))
    many = ExplainedScene(one.segmentation, one.numbers * np.uint16(4000), one.cases)
    assert (np.array(scenes_module.case_picture(many)) == 4000 * one.numbers.astype(int)).all()
    monkeypatch.setattr(scenes_module, "MOST_CASES", 11)
    with pytest.raises(InvalidModel, match="12 cases"):
        SceneExplainer(recognizer)


@given(st.integers(2, 12), st.integers(0, 11), st.integers(1, 20))
def test_the_colour_of_a_case_is_nearest_to_that_of_its_class(classes, number, count):
    colours = default_colours(classes)
    made = shades(colours, number % classes, count=count)
    assert len(set(made)) == count
    assert made[0] == colours[number % classes]
    for colour in made:
        distance = np.linalg.norm(np.array(colours, dtype=float) - colour, axis=1)
        assert distance.argmin() == number % classes
        assert min(colour) >= 0
        assert max(colour) <= 255


def test_there_are_as_many_colours_as_cases_that_can_decide(recognizer):
    head = recognizer.model.head
    assert len(case_colours(recognizer)) == int(head.occupied.sum())
    same = replace(recognizer, colours=((9, 9, 9),) * 4)  # a table of colours may be careless
    assert len(case_colours(same)) == len(case_colours(recognizer))


def filled(path: str, shape: tuple[int, int]) -> np.ndarray:
    """Cells inside a path of horizontal and vertical lines, by counting lines to their left."""
    crossings = np.zeros((shape[0], shape[1] + 1), dtype=int)
    for loop in re.findall(r"M(\d+) (\d+)([^z]*)z", path):
        first = x, y = int(loop[0]), int(loop[1])
        corners = [first]
        for way, length in re.findall(r"([hv])(-?\d+)", loop[2]):
            x, y = (x + int(length), y) if way == "h" else (x, y + int(length))
            corners.append((x, y))
        for (x, y), (to, down) in zip(corners, [*corners[1:], first], strict=True):
            assert (x == to) != (y == down)
            if x == to:
                crossings[min(y, down) : max(y, down), x] += 1
    return crossings.cumsum(axis=1)[:, :-1] % 2 == 1


@given(SMALL_MAPS)
def test_an_outline_filled_is_just_its_region(numbers):
    found = outlines(numbers)
    assert found.step == 1
    assert set(found.paths) == set(np.unique(numbers).tolist()) - {0}
    for number, path in found.paths.items():
        assert (filled(path, numbers.shape) == (numbers == number)).all()


def test_outlines_of_a_large_map_are_those_of_a_coarse_grid():
    rng = np.random.default_rng(0)
    numbers = np.repeat(np.repeat(rng.integers(1, 4, (8, 11)), 25, 0), 25, 1)[:, :-3]
    found = outlines(numbers, most_cells=40)
    assert (found.step, found.width, found.height) == (7, 272 / 7, 200 / 7)
    cells = numbers[3::7, 3::7]
    cells = np.pad(cells, ((0, 29 - cells.shape[0]), (0, 39 - cells.shape[1])), mode="edge")
    for number, path in found.paths.items():
        inside = filled(path, cells.shape)
        assert (inside[:28, :38] == (cells == number)[:28, :38]).all()
    assert sum(filled(path, (29, 39)).sum() for path in found.paths.values()) == 29 * 39


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_pictures_on_a_page_are_neither_tiny_nor_huge(width, height):
    shown = page_size((width, height))
    assert 320 <= max(shown) <= 720 or max(shown) == max(width, height) <= 720
    if max(width, height) <= 320:  # pixels that are enlarged stay squares of one size
        assert shown[0] % width == shown[1] % height == 0
        assert shown[0] // width == shown[1] // height


def test_borders_of_classes_are_clearer_than_those_of_cases():
    image = Image.new("RGB", (320, 320), (90, 90, 90))
    labels, numbers = np.zeros((320, 320), int), np.ones((320, 320), int)
    labels[:, 200:] = 1
    numbers[:, 100:] = 2
    numbers[:, 200:] = 3
    colours = [(200, 30, 30), (150, 30, 60), (30, 30, 200)]
    pixels = np.asarray(with_cases(image, labels, numbers, colours)).astype(int)
    row = pixels[160]
    assert len({tuple(row[x]) for x in (50, 150, 250)}) == 3
    assert row[50].argmax() == row[150].argmax() == 0
    assert row[250].argmax() == 2
    assert row[50].min() < row[99].min() < row[199].min()
    by_class = np.asarray(with_classes(image, labels, colours))[160]
    assert (by_class[50] == by_class[150]).all()
    assert (by_class[99] == by_class[50]).all()


def test_pixels_without_a_label_are_no_mistakes():
    image = Image.new("RGB", (400, 330), (90, 90, 90))
    truth = np.zeros((330, 400), int)
    labels = truth.copy()
    labels[:, 200:] = 1
    truth[100:] = -100
    red = np.asarray(with_mistakes(image, labels, truth)).astype(int)
    is_red = red[..., 0] > red[..., 1] + 40
    assert (is_red == ((labels == 1) & (truth == 0))).all()


def test_a_map_that_is_scaled_has_numbers_of_its_own_alone():
    values = np.random.default_rng(0).integers(0, 9, (31, 47))
    assert (scaled_map(values, (47, 31)) == values).all()
    assert (scaled_map(values, (94, 62)) == values.repeat(2, 0).repeat(2, 1)).all()


def test_numbers_in_a_picture_are_those_of_large_cases_and_never_on_top_of_each_other():
    middles = [(50, 50), (52, 51), (50, 90), (10, 10), (90, 10)]
    shares = [0.5, 0.3, 0.1, 0.05, 0.001]
    assert numbered(middles, shares, (100, 100)) == [0, 2, 3]
    assert numbered([(20 * n, 0) for n in range(40)], [1 / 40] * 40, (100, 500)) == list(range(12))


def test_every_region_leads_to_the_card_of_its_case(explanation):
    page = explanation.html
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for number, one in enumerate(explanation.images, start=1):
        wanted = {f"card-{number}-{case.number}" for case in one.cases}
        assert wanted <= set(ids)
        assert set(re.findall(rf'class="region[^>]*href="#(card-{number}-\d+)"', page)) <= wanted
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    rules = {int(rank) for rank in re.findall(r"\.r(\d+):hover", page)}
    assert rules == set(range(max(len(one.cases) for one in explanation.images)))


def test_a_page_holds_each_crop_once_and_loads_nothing(recognizer, explanation):
    page = explanation.html
    for case in recognizer.cases.cases:
        assert page.count(case.thumbnail) == 1
    assert re.search(r"default-src 'none'; img-src data:; style-src 'unsafe-inline'\"", page)
    assert "<script" not in page
    for source in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert source.startswith(("data:image/", "#")), source[:80]
    assert "url(" not in page


def test_what_is_no_picture_does_not_get_onto_a_page(recognizer, queries):
    cases = recognizer.cases
    evil = replace(cases.cases[0], thumbnail="https://example.org/x.png")
    other = replace(recognizer, cases=replace(cases, cases=(evil, *cases.cases[1:])))
    page = SceneExplanation.of(other, queries[:1]).html
    assert "example.org" not in page
    assert "no picture" in page


def test_what_is_told_of_a_mean_is_not_told_of_a_place(folder, explanation, queries):
    assert "it is the mean that decides" in explanation.html
    anchored = drawn_scene_recognizer(folder, is_anchored=True)
    told = SceneExplanation.of(anchored, queries[:1])
    assert "what is shown is what has decided" in told.html
    assert "mean that decides" not in told.html
    assert told.to_dict()["model"]["cases_are_places"] is True
    unknown = SceneExplanation.of(replace(anchored, cases=None), queries[:1])
    assert "not known to this model" in unknown.html
    assert "no picture" in unknown.html
    unknown.figure()


def test_all_forms_are_written_and_those_of_an_earlier_explanation_do_not_stay(
    explanation, recognizer, queries, tmp_path
):
    explanation.save(tmp_path)
    (tmp_path / "explanation-mine.png").write_bytes(b"")
    files = SceneExplanation.of(recognizer, queries[:1]).save(tmp_path)
    assert [file.name for file in files] == [
        "explanation.html",
        *("explanation.json", "explanation-1.cases.png"),
        "explanation-1.png",
    ]
    assert {path.name for path in tmp_path.iterdir()} == {
        *(file.name for file in files),
        "explanation-mine.png",
    }
    with Image.open(files[3]) as picture:
        assert min(picture.size) > 300


def test_an_explanation_is_told_in_short_and_a_notebook_shows_it(recognizer, queries):
    done = []
    many = SceneExplanation.of(recognizer, queries[:1] * 12, on_done=done.append)
    assert done == list(range(1, 13))
    lines = repr(many).splitlines()
    assert len(lines) == 12
    assert lines[10] == "... and 2 more"
    first = many.images[0].cases[0]
    assert recognizer.case_name(first.label, first.subcentroid) in lines[0]
    shown = many._repr_html_()
    assert shown.startswith("<iframe")
    assert " sandbox " in shown
    with pytest.raises(InvalidInput, match="no image"):
        _ = SceneExplanation.of(recognizer, []).html


def test_a_softmax_segmenter_has_no_cases_to_explain_by(folder, queries):
    softmax = drawn_scene_recognizer(folder, kind="softmax")
    with pytest.raises(InvalidModel, match="of kind 'softmax'"):
        SceneExplanation.of(softmax, queries)


def test_the_command_explains_scenes_and_refuses_what_is_for_classifiers(
    folder, recognizer, tmp_path
):
    dnc.save(recognizer, tmp_path / "model")
    query = sorted((folder / "images" / "test").iterdir())[0]
    result = run("explain", tmp_path / "model", query, "-o", tmp_path / "why", "--flip")
    assert result.exit_code == 0, result.output
    assert "decided by" in result.output
    tree = json.loads((tmp_path / "why" / "explanation.json").read_text())
    mirrored = SceneExplanation.of(
        recognizer, [(str(query), Image.open(query))], views=Views(flip=True)
    )
    assert tree["images"] == mirrored.to_dict()["images"]
    one, image = mirrored.images[0], Image.open(query)
    seen = recognizer.segmented("", image, views=Views(flip=True))
    assert (one.numbers == mirrored.explainer.numbers(seen)).all()
    assert (one.numbers != mirrored.explainer.numbers(recognizer.segmented("", image))).any()
    assert "for classifiers" in refused("explain", tmp_path / "model", query, "--maps")
    assert "for classifiers" in refused("explain", tmp_path / "model", query, "--data", folder)
