import csv
import json

import numpy as np
import pytest
from PIL import Image

import dnc
from tests.cli.commands import refused, run
from tests.data.scenery import draw_scenes

SMALL = [
    *("training.epochs=2", "training.batch_size=4", "training.accelerator=cpu", "data.workers=0"),
    *("model.network=test_resnet", "model.pretrained=false", "segmenter.output_stride=8"),
    *("segmenter.architecture=fcn", "segmenter.channels=16", "scene.crop=32"),
    *("head.subcentroids=2", "head.momentum=0.9"),
]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "street"
    for part, count in (("train", 8), ("val", 3), ("test", 3)):
        draw_scenes(folder, count, part=part, seed=count)
    (folder / "classes.yaml").write_text("classes: [sky, 'r[o]ad', tree, wall]\n")
    return folder


def trained(scenes, folder, *settings):
    options = [part for one in (*SMALL, *settings) for part in ("--set", one)]
    result = run("train", scenes, "-o", folder, *options)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def model(scenes, tmp_path_factory):
    return trained(scenes, tmp_path_factory.mktemp("runs") / "dnc")


@pytest.fixture(scope="module")
def softmax(scenes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "softmax"
    return trained(scenes, folder, "model.classifier=softmax")


def test_a_folder_of_images_and_masks_is_trained_on_by_the_recipe_for_scenes(model):
    assert dnc.load(model).notes["recipe"]["name"] == "scenes"
    assert dnc.load(model).notes["recipe"]["task"] == "segmentation"


def test_evaluate_measures_a_segmenter_and_draws_it_beside_another(
    model, softmax, scenes, tmp_path
):
    folder = tmp_path / "evaluation"
    result = run(*("evaluate", model, scenes, "-o", folder, "--pictures", 2, "--beside", softmax))
    assert result.exit_code == 0, result.output
    assert "mIoU" in result.output
    assert "r[o]ad" in result.output
    found = json.loads((folder / "evaluation.json").read_text())
    assert found["miou"] == dnc.load(model).notes["results"]["test"]
    assert found["images"] == 3
    with Image.open(folder / "scenes.png") as picture:
        assert picture.width > 4 * 48  # input, truth, DNC and softmax


def test_evaluate_looks_in_windows_mirrored_and_at_several_scales(model, scenes):
    result = run("evaluate", model, scenes, "--window", 32, "--flip", "--scales", "0.75,1,1.5")
    assert result.exit_code == 0, result.output


def test_the_window_of_the_recipe_stays_when_other_views_are_asked_for(scenes, tmp_path):
    from dnc.cli.options import views_of

    folder = trained(scenes, tmp_path / "run", "scene.window=32", "training.epochs=1")
    recognizer = dnc.load(folder)
    assert recognizer.views.window == 32
    assert views_of(None, True, None, recognizer=recognizer).window == 32
    assert views_of(64, True, "1,2", recognizer=recognizer).window == 64
    assert views_of(None, False, None, recognizer=recognizer) is None


def test_predict_writes_labels_that_are_the_decisions(model, scenes, tmp_path):
    image = scenes / "images" / "test" / "000.png"
    (tmp_path / "broken.png").write_bytes(b"nothing")
    result = run("predict", model, image, image, tmp_path / "broken.png", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "broken.png" in result.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {
        f"{name}.{what}.png" for name in ("000", "000-2") for what in ("labels", "overlay")
    }
    with Image.open(tmp_path / "out" / "000.labels.png") as picture:
        labels = np.asarray(picture)
    assert np.array_equal(labels, dnc.load(model).segment(image)[0].labels)


def test_predict_of_nothing_readable_fails(model, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"nothing")
    result = run("predict", model, tmp_path / "broken.png", "-o", tmp_path / "out")
    assert result.exit_code == 1


def test_anchor_puts_subcentroids_on_places_and_cases_lists_and_verifies_them(
    model, scenes, tmp_path
):
    result = run("anchor", model, scenes, "-o", tmp_path / "anchored")
    assert result.exit_code == 0, result.output
    recognizer = dnc.load(tmp_path / "anchored")
    assert recognizer.model.head.is_anchored
    assert recognizer.cases.is_anchored
    listed = run("cases", tmp_path / "anchored")
    assert "place in a training image" in listed.output
    verified = run("cases", tmp_path / "anchored", "--verify", scenes)
    assert verified.exit_code == 0, verified.output
    assert f"{len(recognizer.cases.cases)} unchanged" in verified.output
    with (tmp_path / "anchored" / "cases.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(int(r["row"]), int(r["column"])) for r in rows] == [
        case.at for case in recognizer.cases.cases
    ]
    run("cases", tmp_path / "anchored", "--pictures", tmp_path / "pictures")
    assert len(list((tmp_path / "pictures").iterdir())) == len(rows)


def test_data_inspect_counts_pixels_of_classes(scenes, tmp_path):
    result = run("data", "inspect", scenes, "--picture", tmp_path / "samples.png")
    assert result.exit_code == 0, result.output
    assert "8 train, 3 validation, 3 test scenes" in result.output
    assert "r[o]ad" in result.output
    assert (tmp_path / "samples.png").is_file()


def test_what_is_for_classifiers_is_refused(model, scenes, tmp_path):
    told = refused("anchor", model, scenes, "-o", tmp_path / "a", "--choice", "together")
    assert "are for classifiers" in told
    assert "takes a classifier" in refused("fit", scenes, "--kind", "folder", "--from", model)
    assert "takes a classifier" in refused("diff", model, model, scenes)
    assert "numbers with commas" in refused("evaluate", model, scenes, "--scales", "a,b")
    assert "say which with --output" in refused("evaluate", model, scenes, "--pictures", 2)


def test_what_is_for_segmenters_is_refused_of_a_classifier(tmp_path):
    from tests.training.models import small_recognizer

    dnc.save(small_recognizer(), tmp_path / "classifier")
    told = refused("evaluate", tmp_path / "classifier", tmp_path, "--flip")
    assert "are for segmenters" in told
    assert "are for segmenters" in refused(
        *("predict", tmp_path / "classifier", tmp_path / "x.png", "--window", 64)
    )


def test_scenes_can_be_drawn_to_try_it_with(tmp_path):
    result = run("data", "draw", tmp_path / "lakes", "--training", 2, "--test", 1)
    assert result.exit_code == 0, result.output
    assert "2 training and 1 test scenes" in result.output
    assert "name a new folder" in refused("data", "draw", tmp_path / "lakes")
    assert "1 to 100,000" in refused("data", "draw", tmp_path / "none", "--training", 0)


def test_scenes_that_validated_a_model_are_no_strangers_to_it(tmp_path):
    without_validation = tmp_path / "street"
    for part, count in (("train", 8), ("test", 2)):
        draw_scenes(without_validation, count, part=part, seed=count)
    trained(without_validation, tmp_path / "run", "training.epochs=1", "data.validation_share=0.25")
    result = run("evaluate", tmp_path / "run", without_validation, "--part", "validation")
    assert result.exit_code == 0, result.output
    known = dnc.load(tmp_path / "run").notes["results"]["validation"]
    assert f"{100 * known:.2f} %" in result.output
    told = run("anchor", tmp_path / "run", without_validation, "-o", tmp_path / "own").output
    assert "the 2 that validated it too" in told
    assert "not the very images" not in told
    (without_validation / "images" / "train" / "000.png").unlink()
    (without_validation / "masks" / "train" / "000.png").unlink()
    told = run("anchor", tmp_path / "run", without_validation, "-o", tmp_path / "others").output
    assert "not the very images" in told


def test_scenes_are_not_taken_for_classes_of_images(scenes, tmp_path):
    for command in (["fit", scenes], ["train", scenes, "--recipe", "photos"]):
        assert "images with masks" in refused(*command, "-o", tmp_path / "run")


def test_a_file_is_not_taken_for_the_folder_of_label_images(model, scenes, tmp_path):
    (tmp_path / "labels.png").write_bytes(b"mine")
    told = refused("predict", model, scenes / "images" / "test", "-o", tmp_path / "labels.png")
    assert "give a folder" in told
    assert (tmp_path / "labels.png").read_bytes() == b"mine"


def test_cases_that_have_not_reached_their_means_are_told(scenes, tmp_path):
    short = ("training.epochs=1", "head.momentum=0.999", "head.start=positive")
    for settle, is_told in (("false", True), ("true", False)):
        options = [part for one in (*SMALL, *short) for part in ("--set", one)]
        settled = ("--set", f"head.settle={settle}", "-o", tmp_path / settle)
        told = run("train", scenes, *options, *settled).output
        assert ("have not reached the means" in told) == is_told
