"""`dnc explain`, `report`, `diff`, `anchor` and `cases`, as a user types them."""

import csv
import json
import sys
from dataclasses import replace

import pytest

import dnc
from benchmarks.truth import truth_of
from tests.cli.commands import CLASSES, refused, run
from tests.data.drawings import draw_folder, drawing


@pytest.fixture(scope="module")
def anchored(images, model):
    output = model.parent / "anchored"
    result = run("anchor", model, images, "-o", output)
    assert result.exit_code == 0, result.output
    assert "validation, before" in result.output
    assert "validation, after" in result.output
    return output


def test_explain_writes_page_json_and_pictures(images, model, tmp_path):
    queries = sorted((images / "red").iterdir())[:2]
    result = run("explain", model, *queries, "-o", tmp_path / "why")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "why").iterdir()} == {
        *("explanation.html", "explanation.json", "explanation-1.png", "explanation-2.png")
    }
    tree = json.loads((tmp_path / "why" / "explanation.json").read_text())
    truth = truth_of(tree)
    assert truth.shown_case_decides == truth.rules_are_the_prediction == truth.images == 2
    assert truth.maps_that_add_up == truth.maps > 0
    predictions = dnc.load(model).predict(queries)
    assert [one["case"] for one in tree["images"]] == [one.case for one in predictions]
    # The files of the cases were found where they were in training.
    assert all(one["on_case"] for image in tree["images"] for one in image["maps"])


def test_explain_writes_what_is_asked_for_and_tells_what_cannot_be_read(images, model, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    good = next((images / "green").iterdir())
    options = ("--format", "json", "--no-maps", "-o", tmp_path / "why")
    result = run("explain", model, broken, good, *options)
    assert result.exit_code == 0
    assert "broken.png" in result.output
    tree = json.loads((tmp_path / "why" / "explanation.json").read_text())
    assert [image["maps"] for image in tree["images"]] == [[]]
    assert [path.name for path in (tmp_path / "why").iterdir()] == ["explanation.json"]
    assert "None of the 1 files" in refused("explain", model, broken, *options)
    assert "html, json or png" in refused("explain", model, good, "--format", "pdf")
    assert "no images" in refused("explain", model, tmp_path / "why", *options)


def test_explain_refuses_a_page_of_too_many(images, model, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.modules["dnc.cli.explain"], "MOST_ON_A_PAGE", 5)
    told = refused("explain", model, images, "-o", tmp_path / "why")
    assert "dnc report" in told
    assert not (tmp_path / "why").exists()
    options = ("--format", "json", "--no-maps", "-o", tmp_path / "why")
    assert run("explain", model, images, *options).exit_code == 0


def test_anchor_puts_every_case_on_an_image_without_training(images, model, anchored):
    before, after = dnc.load(model), dnc.load(anchored)
    assert after.cases.is_anchored
    assert not before.cases.is_anchored
    for name, value in before.model.state_dict().items():
        if not name.startswith("head."):
            assert (value == after.model.state_dict()[name]).all(), name
    files = [case.file for case in after.cases.cases]
    predictions = after.predict([images / file for file in files])
    for case, prediction in zip(after.cases.cases, predictions, strict=True):
        assert prediction.case == after.case_name(case.label, case.subcentroid)
        assert prediction.similarity == pytest.approx(1, abs=1e-5)
    assert "tied to images already" in refused("anchor", anchored, images, "-o", anchored / "x")
    assert "--overwrite" in refused("anchor", model, images, "-o", anchored)


def test_anchor_refuses_images_of_other_classes(model, tmp_path):
    draw_folder(tmp_path / "others", {"pink": 4, "black": 4})
    told = refused("anchor", model, tmp_path / "others", "-o", tmp_path / "run")
    assert "black, pink" in told
    assert not (tmp_path / "run").exists()


def test_features_can_be_whitened_before_and_the_explanation_is_still_the_decision(
    images, model, tmp_path
):
    plain = tmp_path / "plain"
    options = ("--size", 64, "-k", 2, "--centring", "none", "--cache", model.parent / "c")
    assert run("fit", images, "-o", plain, *options).exit_code == 0
    result = run("anchor", plain, images, "-o", tmp_path / "run", "--whiten", "--choice", "nearest")
    assert result.exit_code == 0, result.output
    assert dnc.load(tmp_path / "run").network.centring == "whitened"
    why = tmp_path / "why"
    assert run("explain", tmp_path / "run", images, "-o", why, "-f", "json").exit_code == 0
    truth = truth_of(json.loads((why / "explanation.json").read_text()))
    assert truth.images == truth.shown_case_decides == truth.rules_are_the_prediction == 36
    assert truth.maps == truth.maps_that_add_up > 0


def test_cases_are_listed_exported_and_verified(images, anchored, tmp_path):
    result = run("cases", anchored)
    assert "6 cases: each is a training image" in result.output
    assert "red#0" in result.output
    assert "red" not in run("cases", anchored, "--class", "blaŭ").output
    assert "there are blaŭ, green, red" in refused("cases", anchored, "--class", "mauve")
    files = tmp_path / "cases.json", tmp_path / "cases.csv"
    for file in files:
        assert run("cases", anchored, "-o", file).exit_code == 0
    tree = json.loads(files[0].read_text())
    assert {case["class"] for case in tree["cases"]} == set(CLASSES)
    with files[1].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["sha256"] for row in rows] == [case["sha256"] for case in tree["cases"]]
    assert run("cases", anchored, "--pictures", tmp_path / "pictures").exit_code == 0
    assert len(list((tmp_path / "pictures").iterdir())) == 6
    assert ".csv or .json" in refused("cases", anchored, "-o", tmp_path / "cases.txt")


def test_a_changed_or_vanished_case_is_told(images, model, tmp_path):
    copy = tmp_path / "copy"
    draw_folder(copy, CLASSES)
    result = run("cases", model, "--verify", copy)
    assert result.exit_code == 0
    assert "6 unchanged, 0 changed, 0 vanished" in result.output
    changed, vanished = (case.file for case in dnc.load(model).cases.cases[:2])
    drawing(4, 9).save(copy / changed)
    (copy / vanished).unlink()
    result = run("cases", model, "--verify", copy)
    assert result.exit_code == 1
    assert f"changed: {changed}" in result.output
    assert f"vanished: {vanished}" in result.output
    assert "4 unchanged, 1 changed, 1 vanished" in result.output


def test_report_is_one_page(images, anchored, tmp_path):
    output = tmp_path / "pages" / "report.html"
    result = run("report", anchored, images, "-o", output)
    assert result.exit_code == 0, result.output
    page = output.read_text()
    assert "Report of <bdi>anchored</bdi>" in page
    assert "validation images" in page
    assert page.count('class="card"') == 6
    assert [path.name for path in output.parent.iterdir()] == ["report.html"]
    assert run("report", anchored, images, "--part", "train", "-o", output).exit_code == 0
    assert "every figure here is too good" in output.read_text()


def test_diff_tells_what_became_of_cases_and_decisions(images, model, anchored, tmp_path):
    result = run("diff", model, anchored, images, "-o", tmp_path / "diff")
    assert result.exit_code == 0, result.output
    assert "right with run" in result.output
    tree = json.loads((tmp_path / "diff" / "diff.json").read_text())
    assert len(tree["cases"]) >= 6
    assert (tmp_path / "diff" / "diff.html").is_file()
    assert run("diff", model, model, images, "-o", tmp_path / "same").exit_code == 0
    same = json.loads((tmp_path / "same" / "diff.json").read_text())
    assert {case["what"] for case in same["cases"]} == {"stayed"}


def test_a_model_without_a_case_base_is_told(model, tmp_path):
    recognizer = dnc.load(model)
    dnc.save(replace(recognizer, cases=None), tmp_path / "old")
    assert "dnc anchor" in refused("cases", tmp_path / "old")
    assert dnc.load(tmp_path / "old").cases is None


def test_images_that_a_model_was_not_trained_on_are_not_called_training_images(
    model, tmp_path, images
):
    draw_folder(tmp_path / "others", CLASSES, seed=7)
    told = run("evaluate", model, tmp_path / "others").output
    assert "given" in told
    assert "train" not in told
    page = tmp_path / "report.html"
    assert run("report", model, tmp_path / "others", "-o", page).exit_code == 0
    text = page.read_text()
    assert "measured on 36 given images" in text
    assert "These are training images" not in text
    assert "may be labelled wrongly" not in text
    diff = run("diff", model, model, tmp_path / "others", "-o", tmp_path / "diff")
    assert "36 given images" in diff.output
    assert run("report", model, images, "-o", page, "--part", "train").exit_code == 0
    assert "These are training images" in page.read_text()
