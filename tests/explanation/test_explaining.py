import json

import numpy as np
import pytest
import torch
from PIL import Image

import dnc
from benchmarks.truth import truth_of
from dnc.data import read_image
from dnc.data.preparation import seen_part
from dnc.demo import digits_split, new_network, recognizer_of, train
from dnc.errors import InvalidInput, InvalidModel
from dnc.explanation.cases import decoded
from tests.data.drawings import draw_folder, drawing
from tests.explanation.models import drawn_recognizer
from tests.training.models import small_recognizer

NAMES = {"red": 9, "green": 9, "blue": 9, "yellow": 9, "violet": 9}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("explained") / "images"
    draw_folder(root, NAMES)
    return root


@pytest.fixture(scope="module")
def recognizer(folder):
    return drawn_recognizer(folder)


@pytest.fixture(scope="module")
def queries():
    return [drawing(label, 100 + number, seed=5) for label in range(5) for number in range(4)]


def through_json(explanation):
    return json.loads(json.dumps(explanation.to_dict(), allow_nan=False))


def test_on_the_whole_test_set_of_the_demo_the_explanation_is_the_decision():
    torch.manual_seed(0)
    split = digits_split(0)
    network, head = new_network(), dnc.SubCentroidHead(64, 10, memory_rows=1280)
    train(network, head, split, epochs=3, on_step=lambda: None)
    recognizer = recognizer_of(network, head, split)
    images = [split.test.read(position) for position in range(len(split.test))]
    tree = through_json(recognizer.explain(images))
    truth = truth_of(tree)
    assert truth.images == 450
    assert truth.shown_case_decides == truth.rules_are_the_prediction == 450
    assert truth.maps_that_add_up == truth.maps == 4 * 450
    # And what is explained is what is predicted.
    predictions = recognizer.predict(images)
    assert [one["class"] for one in tree["images"]] == [one.label for one in predictions]
    assert [one["case"] for one in tree["images"]] == [one.case for one in predictions]
    # Every case is the feature of its image, so maps on cases add up to the same similarity.
    for image in tree["images"]:
        for one, shown in zip(image["maps"], image["evidence"], strict=True):
            assert np.sum(one["on_case"]) == pytest.approx(shown["similarity"], abs=1e-5)


def test_a_lie_would_be_found(recognizer, queries):
    tree = through_json(recognizer.explain(queries))
    assert truth_of(tree).shown_case_decides == len(queries)
    tree["images"][0]["similarities"].reverse()
    assert truth_of(tree).shown_case_decides < len(queries)
    tree = through_json(recognizer.explain(queries))
    tree["images"][1]["rules_that_hold"].append("red#0")
    assert truth_of(tree).rules_are_the_prediction == len(queries) - 1
    tree["images"][2]["maps"][0]["on_query"][0][0] += 1e-3
    assert truth_of(tree).maps_that_add_up == truth_of(tree).maps - 1


def test_a_free_model_shows_the_nearest_image_and_says_that_it_is_one(folder, queries):
    free = drawn_recognizer(folder, is_anchored=False)
    explanation = free.explain(queries[:2])
    tree = through_json(explanation)
    assert truth_of(tree).shown_case_decides == 2
    assert tree["model"]["cases_are_images"] is False
    assert "mean of training images" in explanation.html
    for image in tree["images"]:
        for one in image["maps"]:  # on the case: its own cosine to the query
            assert np.sum(one["on_case"]) == pytest.approx(one["similarity_to_file"], abs=1e-5)


def test_where_no_sum_over_places_exists_the_page_says_approximation(folder, queries):
    vit = drawn_recognizer(folder, network="test_vit", is_anchored=False)
    explanation = vit.explain(queries[0])
    tree = through_json(explanation)
    assert not any(one["adds_up_to_similarity"] for one in tree["images"][0]["maps"])
    assert "An approximation" in explanation.html
    assert "An approximation" in "".join(
        text.get_text() for ax in explanation.figure().axes for text in ax.texts
    )


def test_without_the_files_of_the_cases_there_are_no_maps_of_them(folder, queries, tmp_path):
    recognizer = drawn_recognizer(folder)
    explanation = recognizer.explain(queries[0], data=tmp_path)
    assert all(one.on_case is None for one in explanation.images[0].maps)
    assert "file of the case was not found" in explanation.html
    explanation.figure()


def test_without_a_case_base_a_decision_can_be_explained_all_the_same():
    recognizer = small_recognizer()
    explanation = recognizer.explain(drawing(0, 0))
    assert truth_of(through_json(explanation)).rules_are_the_prediction == 1
    assert "not known to this model" in explanation.html
    assert "no picture" in explanation.html
    explanation.figure()


def test_a_softmax_model_has_no_cases_to_explain_by():
    with pytest.raises(InvalidModel, match="of kind 'softmax'"):
        small_recognizer(kind="softmax").explain(drawing(0, 0))


def test_all_forms_are_written_and_a_notebook_shows_the_page(recognizer, queries, tmp_path):
    explanation = recognizer.explain(queries[:2])
    files = explanation.save(tmp_path / "out")
    assert [file.name for file in files] == [
        "explanation.html",
        "explanation.json",
        "explanation-1.png",
        "explanation-2.png",
    ]
    assert json.loads(files[1].read_text())["images"][0]["image"] == "0"
    with Image.open(files[2]) as picture:
        assert min(picture.size) > 300
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        file.name for file in files
    )
    shown = explanation._repr_html_()
    assert shown.startswith("<iframe")
    assert " sandbox " in shown
    assert "<!DOCTYPE" not in shown


def test_one_image_may_come_as_path_array_tensor_or_picture(recognizer, queries, tmp_path):
    queries[0].save(tmp_path / "query.png")
    array = np.asarray(queries[0])
    trees = [
        recognizer.explain(image, with_maps=False).to_dict()["images"][0]
        for image in (
            *(queries[0], tmp_path / "query.png", array),
            torch.from_numpy(array.copy()).movedim(-1, 0),
        )
    ]
    assert all(tree["similarities"] == trees[0]["similarities"] for tree in trees)
    assert trees[1]["image"] == str(tmp_path / "query.png")
    batch = torch.from_numpy(np.stack([np.asarray(query) for query in queries[:3]])).movedim(-1, 1)
    assert len(recognizer.explain(batch, with_maps=False).images) == 3


def test_the_first_four_classes_are_shown_and_the_map_is_of_them(recognizer, queries):
    (image,) = recognizer.explain(queries[3]).to_dict()["images"]
    assert len(image["evidence"]) == len(image["maps"]) == 4
    assert sum(one["normalised_similarity"] for one in image["evidence"]) == pytest.approx(1)
    assert image["margin"] == pytest.approx(
        image["evidence"][0]["similarity"] - image["evidence"][1]["similarity"], abs=1e-6
    )
    assert image["rival"] == image["evidence"][1]["case"]
    assert f"more similar to {image['case']} than to {image['rival']}, " in image["rule"]


def test_pictures_of_an_earlier_explanation_do_not_stay(recognizer, queries, tmp_path):
    recognizer.explain(queries[:2]).save(tmp_path)
    (tmp_path / "explanation-mine.png").write_bytes(b"")
    recognizer.explain(queries[0]).save(tmp_path)
    left = sorted(path.name for path in tmp_path.glob("*.png"))
    assert left == ["explanation-1.png", "explanation-mine.png"]


def test_an_explanation_is_told_in_short_and_nothing_is_not_explained(recognizer, queries):
    explanation = recognizer.explain([queries[0]] * 12)
    lines = repr(explanation).splitlines()
    assert len(lines) == 12
    assert lines[0].startswith("0: ")
    assert lines[10] == "... and 2 more"
    with pytest.raises(InvalidInput, match="No image"):
        recognizer.explain([])


def test_what_is_told_of_a_mean_is_not_told_of_an_image(folder, recognizer, queries):
    free = drawn_recognizer(folder, is_anchored=False)
    assert "what is shown here is what has decided" in recognizer.explain(queries[0]).html
    page = free.explain(queries[0]).html
    assert "what is shown here is what has decided" not in page
    assert "it is the mean that decides" in page


def test_cases_are_pictured_as_the_network_sees_them(folder, recognizer):
    case = recognizer.cases.cases[0]
    image = read_image(folder / case.file)
    shown = decoded(case.thumbnail)
    assert np.array_equal(np.asarray(shown), np.asarray(seen_part(image, recognizer.preprocessing)))
