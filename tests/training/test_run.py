import csv
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

import dnc
from dnc.data import open_data
from dnc.errors import InvalidData, InvalidRecipe, InvalidSetting
from dnc.training.building import new_recognizer
from dnc.training.recipe import Recipe
from dnc.training.run import opened, train
from dnc.training.state import read_json, read_tensors
from tests.data.drawings import draw_difficult_folder, draw_folder
from tests.training.other_processes import killed_run, runs_of_one_and_two_processes

# Small enough for seconds: 200 digits of 8x8 pixels.
SMALL = [
    "training.epochs=3",
    "training.batch_size=32",
    "training.accelerator=cpu",
    "data.train_per_class=20",
    "data.size=8",
    "augment.padding=1",
    "augment.mixup=0.2",
    "optimizer.ema=0.9",
    "head.memory_batches=3",
]
QUIET = Console(quiet=True)
DNC = Path(sys.executable).with_name("dnc")


def small_recipe(*settings: str) -> Recipe:
    return Recipe.read("digits").with_settings([*SMALL, *settings])


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    report = train(small_recipe(), folder, console=QUIET)
    return folder, report


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def without_times(tree):
    """Training state without what a clock has measured."""
    if isinstance(tree, dict):
        items = tree.get("map")
        if isinstance(items, list):
            timed = {"seconds", "epoch_seconds", "images_per_second"}
            return {key: without_times(value) for key, value in items if key not in timed}
        return {key: without_times(value) for key, value in tree.items()}
    return [without_times(value) for value in tree] if isinstance(tree, list) else tree


def assert_same_state(one: Path, other: Path) -> None:
    first, second = (read_tensors(folder / "training.safetensors") for folder in (one, other))
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert "/random_states" in first
    assert any("memory.rows" in name for name in first)
    state, resumed = (without_times(read_json(folder / "training.json")) for folder in (one, other))
    assert state == resumed


def test_a_run_killed_in_its_third_epoch_and_resumed_ends_in_the_same_bits(tmp_path, whole_run):
    folder = tmp_path / "killed"
    killed_run(folder, SMALL, epoch=2)
    assert [row["epoch"] for row in rows_of(folder / "metrics.csv")] == ["1", "2"]
    train(Recipe.read(folder / "recipe.yaml"), folder, console=QUIET, resume=True)
    whole, _ = whole_run
    assert_same_state(whole / "checkpoints" / "last", folder / "checkpoints" / "last")
    # The wheel of time apart, the table is the same too.
    tables = [rows_of(run / "metrics.csv") for run in (whole, folder)]
    for table in tables:
        for row in table:
            del row["seconds"], row["epoch_seconds"], row["images_per_second"]
    assert tables[0] == tables[1]


def test_a_run_leaves_all_that_was_promised(whole_run):
    folder, report = whole_run
    for name in (
        *("recipe.yaml", "files.csv", "metrics.csv", "curves.png", "cases.csv", "cases.png"),
        *("checkpoints/best/model.json", "checkpoints/last/training.safetensors"),
        *("model/model.safetensors", "evaluation/test/evaluation.json"),
        *("evaluation/test/confusion.png", "evaluation/test/classes.csv"),
    ):
        assert (folder / name).is_file(), name
    assert not (folder / "model" / "training.json").exists()
    assert [result.images for result in report.results] == ["test", "validation"]
    figures = json.loads((folder / "results.json").read_text())
    for result in report.results:
        assert figures["results"][result.images]["top1"] == result.evaluation.top1
    rows = rows_of(folder / "metrics.csv")
    assert figures["steps"] == int(rows[-1]["step"])
    kept = dnc.load(folder).model.head.health().pairwise_cosine.mean()
    assert figures["health"]["pairwise_cosine"] == pytest.approx(float(kept))
    seconds = sum(float(row["epoch_seconds"]) for row in rows)
    assert figures["seconds_per_step"] == pytest.approx(seconds / int(rows[-1]["step"]))
    assert {"cosine_to_mean", "least_cosine_to_mean", "agreement", "rival_cosine"} <= figures[
        "health"
    ].keys()
    notes = dnc.load(folder).notes
    assert notes["results"]["test"] == report.results[0].evaluation.top1
    assert notes["recipe"]["training"]["epochs"] == 3
    assert notes["data"]["fingerprint"] == opened(small_recipe(), QUIET).train.fingerprint()
    assert set(notes["versions"]) >= {"dnc", "torch", "timm"}


def test_what_is_kept_is_the_averaged_network(whole_run):
    folder, _ = whole_run
    kept = read_tensors(folder / "checkpoints" / "last" / "model.safetensors")
    state = read_tensors(folder / "checkpoints" / "last" / "training.safetensors")
    learnt = {name.removeprefix("/state_dict/model."): value for name, value in state.items()}
    convolutions = [name for name in kept if name.startswith("backbone.") and kept[name].ndim == 4]
    assert convolutions
    assert not any(torch.equal(kept[name], learnt[name]) for name in convolutions)
    assert torch.equal(kept["head.centroids"], learnt["head.centroids"])


def test_ids_lead_back_to_files(whole_run):
    folder, _ = whole_run
    listing = {row["id"]: row for row in rows_of(folder / "files.csv")}
    state = read_tensors(folder / "checkpoints" / "last" / "training.safetensors")
    ids = state["/state_dict/model.head.memory.ids"]
    classes = dnc.load(folder).classes
    assert (ids >= 0).any()
    for label, of_class in enumerate(ids.tolist()):
        for number in of_class:
            if number >= 0:
                assert listing[str(number)]["part"] == "train"
                assert listing[str(number)]["label"] == classes[label]


def test_softmax_is_the_same_run_with_another_classifier(tmp_path):
    report = train(small_recipe("model.classifier=softmax"), tmp_path / "run", console=QUIET)
    assert report.results[0].evaluation.images == 450
    assert not dnc.load(tmp_path / "run").model.is_dnc
    rows = rows_of(tmp_path / "run" / "metrics.csv")
    assert rows[-1]["pairwise_cosine"] == ""


def test_a_run_continues_a_checkpoint_without_losing_a_parameter(tmp_path, whole_run):
    folder, _ = whole_run
    draw_folder(tmp_path / "images", {"red": 6, "green": 6, "blue": 6})
    splits = open_data(tmp_path / "images")
    recipe = small_recipe("data.kind=folder", "data.train_per_class=null", "training.epochs=1")
    earlier = dnc.load(folder)
    continued = new_recognizer(recipe.with_start(str(folder)), splits)
    kept, taken = earlier.model.state_dict(), continued.model.state_dict()
    for name, value in kept.items():
        if not name.startswith("head."):
            assert torch.equal(value, taken[name]), name
    assert sum(p.numel() for p in earlier.model.parameters()) == sum(
        p.numel() for p in continued.model.parameters()
    )
    recipe = recipe.with_path(str(tmp_path / "images")).with_start(str(folder))
    train(recipe, tmp_path / "run", console=QUIET)
    assert dnc.load(tmp_path / "run").classes == ("blue", "green", "red")


def interruption(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_difficult_folder_trains_to_the_end_and_each_bad_file_is_reported_once(
    tmp_path, interrupted, monkeypatch
):
    bad = draw_difficult_folder(tmp_path / "images")
    recipe = Recipe.read("photos").with_settings(
        [
            "model.network=resnet20-cifar",
            "model.pretrained=false",
            "data.size=16",
            "training.epochs=2",
            "training.batch_size=8",
        ]
    )
    recipe = recipe.with_path(str(tmp_path / "images"))
    if interrupted:
        with monkeypatch.context() as patch:
            patch.setattr("dnc.training.classifying.evaluated", interruption)
            with pytest.raises(KeyboardInterrupt):
                train(recipe, tmp_path / "run", console=QUIET)
    report = train(recipe, tmp_path / "run", console=QUIET, resume=interrupted)
    assert not list((tmp_path / "run").glob("set-aside-*"))
    reported = [row["file"] for row in rows_of(tmp_path / "run" / "set-aside.csv")]
    assert sorted(reported) == sorted(str(path) for path in bad)
    assert len(report.set_aside) == len(bad)
    listed = [row["file"] for row in rows_of(tmp_path / "run" / "files.csv")]
    good = [tmp_path / "images" / name for name in listed if name not in bad]
    predictions = dnc.load(tmp_path / "run").predict(good)
    assert all(prediction.label for prediction in predictions)


def test_rows_with_two_labels_are_not_absorbed(tmp_path):
    all_rows = ("training.epochs=1", "optimizer.ema=null", "head.only_correct=false")
    recipe = small_recipe(*all_rows, "augment.mix_probability=1", "augment.mixup=1")
    train(recipe, tmp_path / "mixed", console=QUIET)
    train(small_recipe(*all_rows, "augment.mixup=0"), tmp_path / "plain", console=QUIET)
    written = [
        int(
            read_tensors(tmp_path / run / "checkpoints/last/training.safetensors")[
                "/state_dict/model.head.memory.written"
            ].sum()
        )
        for run in ("mixed", "plain")
    ]
    assert written[1] == 200
    assert 0 < written[0] < written[1] / 2  # pairs of one class have one label


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, whole_run):
    folder, _ = whole_run
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(InvalidRecipe, match="--resume"):
        train(small_recipe(), folder, console=QUIET)
    assert sorted(path.name for path in folder.iterdir()) == before
    with pytest.raises(InvalidRecipe, match="no run to resume"):
        train(small_recipe(), tmp_path, console=QUIET, resume=True)


def test_a_run_does_not_go_on_with_other_images(whole_run):
    folder, _ = whole_run
    with pytest.raises(InvalidData, match="changed"):
        train(small_recipe("data.train_per_class=19"), folder, console=QUIET, resume=True)


def test_an_interrupted_run_says_how_to_go_on(tmp_path):
    settings = [part for setting in SMALL for part in ("--set", setting)]
    running = subprocess.Popen(
        [DNC, "train", "-r", "digits", "-o", "run", *settings, "-s", "training.epochs=500"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        # A command in the background of a shell begins with interrupts switched off.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith("epoch   2"):
            break
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "--resume run" in rest
    assert len(rows_of(tmp_path / "run" / "metrics.csv")) >= 2
    assert dnc.load(tmp_path / "run").classes


def test_half_precision_trains(tmp_path):
    recipe = small_recipe("training.precision=bf16-mixed", "training.epochs=1")
    report = train(recipe, tmp_path / "run", console=QUIET)
    assert report.results[0].evaluation.undecided == 0


def test_two_processes_train_the_network_of_one_with_uneven_batches(tmp_path):
    # 19 images are one batch, of which one process has ten and the other nine.
    draw_folder(tmp_path / "images", {"red": 7, "green": 6, "blue": 6})
    (tmp_path / "images" / "red" / "broken.png").write_bytes(b"no image")
    runs = runs_of_one_and_two_processes(tmp_path / "images", tmp_path)
    one, two = (read_tensors(run / "checkpoints/last/training.safetensors") for run in runs)
    tables = [rows_of(run / "metrics.csv") for run in runs]
    for row, of_two in zip(*tables, strict=True):
        assert float(row["train_loss"]) == pytest.approx(float(of_two["train_loss"]), rel=1e-3)
    assert len(rows_of(tmp_path / "run2" / "set-aside.csv")) == 1
    memory = "/state_dict/model.head.memory."
    assert one[memory + "rows"].shape == two[memory + "rows"].shape
    assert torch.equal(one[memory + "written"], two[memory + "written"])
    assert torch.equal(one[memory + "ids"].sort().values, two[memory + "ids"].sort().values)
    for name in one:
        if name.startswith("/state_dict/") and not name.startswith(memory):
            torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=1e-4)


def test_accumulated_batches_are_one_batch(tmp_path):
    plain = [
        *("model.network=test_vit", "model.centring=none", "data.size=64", "data.resize=64"),
        *("data.train_per_class=6", "augment.crop=none", "augment.flip=false", "augment.mixup=0"),
        *("optimizer.name=sgd", "optimizer.learning_rate=0.01", "optimizer.ema=null"),
        # All rows, so that each step has some to absorb.
        *("head.memory_batches=0", "head.only_correct=false", "training.epochs=1"),
    ]
    train(small_recipe(*plain, "training.batch_size=20"), tmp_path / "one", console=QUIET)
    halves = ("training.batch_size=10", "training.accumulate=2", "data.validation_share=0.1")
    train(small_recipe(*plain, *halves), tmp_path / "two", console=QUIET)
    one, two = (
        read_tensors(tmp_path / run / "checkpoints/last/training.safetensors")
        for run in ("one", "two")
    )
    assert one["/state_dict/model.head.steps"] == two["/state_dict/model.head.steps"] == 3
    for name in one:
        if name.startswith("/state_dict/"):
            torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=1e-5)


def test_a_row_has_only_what_was_measured(tmp_path):
    recipe = small_recipe("training.validate_every=2", "data.train_per_class=8")
    train(recipe, tmp_path / "run", console=QUIET)
    validated = [row["val_top1"] != "" for row in rows_of(tmp_path / "run" / "metrics.csv")]
    assert validated == [False, True, False]


def test_further_sets_are_evaluated_whole_and_looked_for_before_the_training(tmp_path):
    draw_folder(tmp_path / "images", {"red": 8, "green": 8})
    draw_folder(tmp_path / "others", {"red": 5, "green": 5}, seed=1)
    settings = ("data.kind=folder", "data.train_per_class=null", "training.epochs=1")
    recipe = small_recipe(*settings, "training.batch_size=4").with_path(str(tmp_path / "images"))
    there = recipe.with_settings([f"data.evaluate_on=['{tmp_path / 'others'}']"])
    report = train(there, tmp_path / "run", console=QUIET)
    assert [result.evaluation.images for result in report.results][1:] == [10]
    nowhere = recipe.with_settings([f"data.evaluate_on=['{tmp_path / 'nowhere'}']"])
    with pytest.raises(InvalidData):
        train(nowhere, tmp_path / "never", console=QUIET)
    assert not (tmp_path / "never").exists()


def test_a_continued_run_is_resumed_without_the_checkpoint_it_came_from(tmp_path, whole_run):
    shutil.copytree(whole_run[0], tmp_path / "earlier")
    recipe = small_recipe("training.epochs=1", "model.network=resnet50", "model.centring=standard")
    recipe = recipe.with_start(str(tmp_path / "earlier"))
    train(recipe, tmp_path / "run", console=QUIET)
    kept = Recipe.read(tmp_path / "run" / "recipe.yaml")
    assert (kept.model.network, kept.model.centring) == ("resnet20-cifar", "none")
    shutil.rmtree(tmp_path / "earlier")
    longer = kept.with_settings(["training.epochs=2"])
    train(longer, tmp_path / "run", console=QUIET, resume=True)
    assert [row["epoch"] for row in rows_of(tmp_path / "run" / "metrics.csv")] == ["1", "2"]


def test_a_batch_of_one_image_is_refused():
    with pytest.raises(InvalidRecipe, match="batch_size"):
        small_recipe("training.batch_size=1")


def test_without_tensorboard_all_but_tensorboard_works(tmp_path, monkeypatch):
    for name in ("tensorboard", "tensorboardX", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    train(small_recipe("training.epochs=1"), tmp_path / "run", console=QUIET)
    assert (tmp_path / "run" / "model").is_dir()


def test_tensorboard_files_are_written_on_request(tmp_path):
    train(
        small_recipe("training.epochs=1", "training.tensorboard=true"),
        tmp_path / "run",
        console=QUIET,
    )
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InvalidRecipe, match="auto"):
        train(small_recipe("training.accelerator=gpu"), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()
    with pytest.raises(InvalidSetting, match="cuda"):
        dnc.load(tmp_path, device="cuda")
