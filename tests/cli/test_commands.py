"""The commands from a folder of images to predictions, as a user types them."""

import csv
import hashlib
import io
import json
from collections import Counter

import pytest
from PIL import Image

import dnc
from dnc.errors import DNCError
from tests.cli.commands import CLASSES, refused, run
from tests.data.drawings import draw_folder


def test_fit_makes_a_model_that_knows_what_was_drawn(model):
    evaluation = json.loads((model / "evaluation" / "validation" / "evaluation.json").read_text())
    assert evaluation["top1"] == 1.0
    assert (model / "files.csv").is_file()


def test_the_image_behind_each_case_is_one_of_its_class(images, model):
    with (model / "cases.csv").open(encoding="utf-8") as file:
        cases = list(csv.DictReader(file))
    assert len(cases) == 6
    for case in cases:
        assert (images / case["file"]).parent.name == case["case"].partition("#")[0]
        assert int(case["of_these_right"]) <= int(case["stands_for"])
        content = (images / case["file"]).read_bytes()
        assert case["sha256"] == hashlib.sha256(content).hexdigest()
        assert -1 <= float(case["similarity"]) <= 1


def test_a_case_decides_the_training_images_that_are_predicted_by_it(images, model):
    with (model / "files.csv").open(encoding="utf-8") as file:
        trained = [row for row in csv.DictReader(file) if row["part"] == "train"]
    predictions = dnc.load(model).predict([images / row["file"] for row in trained])
    decides = Counter(prediction.case for prediction in predictions)
    rightly = Counter(
        prediction.case
        for prediction, row in zip(predictions, trained, strict=True)
        if prediction.label == row["label"]
    )
    with (model / "cases.csv").open(encoding="utf-8") as file:
        for case in csv.DictReader(file):
            assert int(case["decides"]) == decides[case["case"]]
            assert int(case["rightly"]) == rightly[case["case"]]


def test_fit_again_uses_the_features_it_has(images, model):
    cache = model.parent / "c"
    before = [(file.name, file.stat().st_mtime_ns) for file in cache.iterdir()]
    again = ("fit", images, "-o", model.parent / "again", "--size", 64, "--cache", cache)
    result = run(*again, "--assign", "kmeans")
    assert result.exit_code == 0, result.output
    assert "Cases of each class: 1 (" in result.output  # what was drawn is one heap
    assert len((model.parent / "again" / "cases.csv").read_text().splitlines()) == 1 + len(CLASSES)
    assert [(file.name, file.stat().st_mtime_ns) for file in cache.iterdir()] == before
    result = run(*again)
    assert isinstance(result.exception, DNCError)
    assert "--overwrite" in str(result.exception)
    assert run(*again, "--overwrite").exit_code == 0


def test_predict_says_class_case_and_margin_of_files_folders_patterns_and_stdin(images, model):
    one = sorted((images / "red").iterdir())[0]
    asked = [
        ((one,), None, 1),
        ((images / "red",), None, 12),
        ((f"{images}/*/000*.png",), None, 30),
        (("-",), f"{one}\n{one}\n", 2),
    ]
    for arguments, stdin, expected in asked:
        result = run("predict", model, *arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        assert len(rows) == expected
    rows = list(csv.DictReader(io.StringIO(run("predict", model, images / "blaŭ").stdout)))
    assert {row["label"] for row in rows} == {"blaŭ"}
    assert {row["case"] for row in rows} <= {"blaŭ#0", "blaŭ#1"}
    assert all(float(row["margin"]) > 0 for row in rows)
    assert all(0 < float(row["probability"]) <= 1 for row in rows)


def test_predict_writes_json_lines_to_a_file(images, model, tmp_path):
    target = tmp_path / "new" / "lines.jsonl"
    result = run("predict", model, images, "--format", "jsonl", "-o", target)
    assert result.exit_code == 0
    assert result.stdout == ""
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 36
    assert lines[0].keys() >= {"source", "label", "case", "similarity", "margin", "error"}


def test_predict_goes_on_past_what_it_cannot_read(images, model, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_text("no image")
    good = sorted((images / "green").iterdir())[0]
    result = run("predict", model, broken, good)
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["label"] for row in rows] == ["", "green"]
    assert rows[0]["error"]
    assert run("predict", model, broken).exit_code == 1
    missing = run("predict", model, tmp_path / "nothing.jpg", good)
    assert missing.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(missing.stdout)))
    assert [row["label"] for row in rows] == ["", "green"]
    assert "no such file" in rows[0]["error"]
    nothing = run("predict", model, tmp_path / "*.tiff")
    assert isinstance(nothing.exception, DNCError)
    assert nothing.stdout == ""


def test_evaluate_writes_figures_tables_and_pictures(images, model, tmp_path):
    result = run("evaluate", model, images, "-o", tmp_path / "evaluation")
    assert result.exit_code == 0, result.output
    assert "100.00 %" in result.output
    names = {file.name for file in (tmp_path / "evaluation").iterdir()}
    assert names == {
        *("evaluation.json", "classes.csv", "confusions.csv"),
        *("confusion.png", "reliability.png", "classes.png"),
    }


def test_evaluate_refuses_classes_that_the_model_does_not_know(model, tmp_path):
    draw_folder(tmp_path / "others", {"violet": 2, "red": 2})
    result = run("evaluate", model, tmp_path / "others")
    assert isinstance(result.exception, DNCError)
    assert "violet" in str(result.exception)


def test_train_from_a_fitted_model(images, model, tmp_path):
    result = run(
        *("train", images, "-o", tmp_path / "run", "--from", model, "-s", "training.epochs=1"),
        *("-s", "data.size=64", "-s", "training.batch_size=8"),
    )
    assert result.exit_code == 0, result.output
    assert "images/s" in result.output
    assert "validation" in result.output


def test_a_run_takes_the_next_free_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("-s", "data.train_per_class=4", "-s", "data.size=8", "-s", "training.epochs=1")
    for folder in ("digits", "digits-2", "digits-3"):
        result = run("train", "-r", "digits", "--quiet", *small)
        assert result.exit_code == 0, result.output
        assert (tmp_path / "runs" / folder / "model").is_dir()


def test_fit_says_when_it_is_measured_on_what_it_was_made_of(images, tmp_path):
    options = ("--size", 64, "--cache", tmp_path / "c")
    result = run("fit", images, "-o", tmp_path / "r", "--validation-share", 0, *options)
    assert "the very images" in result.output


def test_inspect_counts_and_finds_what_is_wrong(images, tmp_path):
    draw_folder(tmp_path / "photos", CLASSES)
    (tmp_path / "photos" / "red" / "broken.jpg").write_text("no image")
    first = sorted((tmp_path / "photos" / "green").iterdir())[0]
    (tmp_path / "photos" / "red" / "copy.png").write_bytes(first.read_bytes())
    picture, report = tmp_path / "samples.png", tmp_path / "report.json"
    result = run("data", "inspect", tmp_path / "photos", "-p", picture, "--json", report)
    assert result.exit_code == 0, result.output
    for told in ("blaŭ", "13", "broken.jpg", "different labels"):
        assert told in result.output
    with Image.open(picture) as image:
        assert min(image.size) > 100
    assert json.loads(report.read_text(encoding="utf-8"))["unreadable"]


def test_models_lists_names_dimensions_and_the_papers_numbers():
    text = run("models").output
    for told in ("resnet50-cifar", "2048", "23.5", "efficientnet-lite0", "swin-s"):
        assert told in text
    assert "convnext_atto" in run("models", "convnext_atto*").output
    assert isinstance(run("models", "no-such-*").exception, DNCError)


def test_recipes_lists_prints_and_explains():
    assert "cifar10-laptop" in run("recipes").output
    assert "memory_batches" in run("recipes", "--fields").output
    printed = run("recipes", "digits").output
    assert "kind: digits" in printed
    wrong = run("recipes", "digit")
    assert "digits" in str(wrong.exception)


@pytest.mark.parametrize(
    "command", ["demo", "fit", "train", "evaluate", "predict", "models", "recipes"]
)
def test_each_command_explains_itself(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Examples" in result.output or command == "demo"


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--set", "head.momentum=2", "-r", "digits"),
        ("train", "--set", "head.momentu=0.2", "-r", "digits"),
        ("train", "-r", "no-such-recipe"),
        ("train", "no-such-folder"),
        ("evaluate", "no-such-checkpoint", "."),
        ("predict", "no-such-checkpoint", "."),
        ("fit", "no-such-folder"),
        ("data", "inspect", "no-such-folder"),
    ],
)
def test_what_is_wrong_is_a_typed_error(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert isinstance(result.exception, DNCError), result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", ["0", "-1", "2.5", "many"])
def test_a_number_of_cases_is_auto_or_one_and_more(images, number, tmp_path):
    result = run("fit", images, "-o", tmp_path / "run", f"-k={number}")
    assert result.exit_code == 2
    assert "give auto, or 1 or more" in " ".join(result.output.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_evaluate_uses_the_images_that_were_kept_out_of_training(images, model, tmp_path):
    result = run("evaluate", model, images)
    assert "validation" in result.output
    assert "trained on" not in result.output
    result = run("evaluate", model, images, "--part", "train")
    assert "trained on these very images" in result.output


def test_evaluate_reports_files_that_cannot_be_read(images, model, tmp_path):
    draw_folder(tmp_path / "photos", {"red": 3, "green": 3})
    whole = (tmp_path / "photos" / "red" / "0000.png").read_bytes()
    (tmp_path / "photos" / "red" / "cut.png").write_bytes(whole[: len(whole) // 2])
    result = run("evaluate", model, tmp_path / "photos")
    assert result.exit_code == 0
    assert "cut.png" in result.output


def test_a_run_that_is_resumed_stays_the_same_run(tmp_path):
    for more in (("-r", "digits"), ("-o", tmp_path), ("-s", "model.classifier=softmax")):
        result = run("train", "--resume", tmp_path, *more)
        assert isinstance(result.exception, DNCError)


def test_fit_from_a_checkpoint_refuses_another_network(images, model, tmp_path):
    result = run("fit", images, "-o", tmp_path / "run", "--from", model, "--size", 32)
    assert isinstance(result.exception, DNCError)
    result = run("fit", images, "-o", tmp_path / "run", "--from", model, "--cache", tmp_path)
    assert result.exit_code == 0, result.output


def test_study_lists_what_is_shipped_and_shows_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "digits-subcentroids" in run("study", "list").stdout
    result = run("study", "digits-subcentroids", "--dry-run", "--seeds", 2)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("K 4, seed") == 2
    assert list(tmp_path.iterdir()) == []
    nothing = run("study", "digits-subcentroid")
    assert isinstance(nothing.exception, DNCError)
    assert "Did you mean 'digits-subcentroids'?" in str(nothing.exception)


def test_discover_looks_for_finer_classes(tmp_path):
    images = tmp_path / "images"
    for part in ("train", "test"):
        draw_folder(images / part, {"red": 4, "green": 4, "blue": 4, "grey": 4})
    (tmp_path / "coarse.csv").write_text(
        "fine,coarse\nred,warm\ngreen,cold\nblue,cold\ngrey,warm\n"
    )
    fitted = run(
        *("fit", images, "-o", tmp_path / "run", "--size", 64, "-k", 2, "--cache", tmp_path / "c"),
        *("--coarse", tmp_path / "coarse.csv"),
    )
    assert fitted.exit_code == 0, fitted.output
    result = run("discover", tmp_path / "run", images, "-o", tmp_path / "found")
    assert result.exit_code == 0, result.output
    assert "Of 4 finer classes" in result.output
    assert (tmp_path / "found" / "finer-classes.png").is_file()
    told = refused("discover", tmp_path / "run", images / "train", "-o", tmp_path / "found")
    assert "train/ and test/" in told
