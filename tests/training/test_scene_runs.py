import csv
from io import StringIO

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import dnc
from dnc.data import Preprocessing, open_scenes
from dnc.errors import InvalidData, InvalidModel
from dnc.evaluation.scene_evaluating import evaluate_scenes
from dnc.models import classifier
from dnc.recognition import Network, Recognizer
from dnc.training.recipe import Recipe
from dnc.training.run import train
from dnc.training.scene_building import new_scene_recognizer
from dnc.training.scene_features import Place, ShownScenes
from dnc.training.state import read_json, read_tensors
from tests.data.scenery import draw_difficult_scenes, draw_scenes
from tests.training.other_processes import killed_run, runs_of_one_and_two_processes

QUIET = Console(quiet=True)
# Small enough for seconds: scenes of 48x36 pixels in four colours, a class each.
SMALL = [
    "training.epochs=3",
    "training.batch_size=4",
    "training.validate_every=1",
    "training.accelerator=cpu",
    "data.workers=0",
    "model.network=test_resnet",
    "model.pretrained=false",
    "segmenter.architecture=fcn",
    "segmenter.output_stride=8",
    "segmenter.channels=16",
    "segmenter.embedding=12",
    "scene.crop=32",
    "scene.colour_jitter=0",
    "head.subcentroids=2",
    "head.momentum=0.9",
    "optimizer.learning_rate=0.003",
]


def small_recipe(folder, *settings):
    return Recipe.read("scenes").with_settings([*SMALL, *settings]).with_path(str(folder))


def draw_parts(root):
    """Fourteen scenes to learn from, three to validate and two to test on."""
    draw_scenes(root, 14, part="train")
    draw_scenes(root, 3, part="val", seed=1)
    draw_scenes(root, 2, part="test", seed=2)
    return root


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return draw_parts(tmp_path_factory.mktemp("scenes"))


@pytest.fixture(scope="module")
def whole_run(drawn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    settings = ["optimizer.ema=0.9", "segmenter.auxiliary=0.4", "scene.pixels_per_class=20"]
    report = train(small_recipe(drawn, *settings), folder, console=QUIET)
    return folder, report, settings


def without_times(tree):
    if isinstance(tree, dict):
        timed = {"seconds", "epoch_seconds", "images_per_second"}
        if isinstance(tree.get("map"), list):
            return [(key, without_times(v)) for key, v in tree["map"] if key not in timed]
        return {key: without_times(value) for key, value in tree.items()}
    return [without_times(one) for one in tree] if isinstance(tree, list) else tree


def test_a_run_leaves_all_that_was_promised(whole_run):
    folder, report, _ = whole_run
    names = {path.name for path in folder.iterdir()}
    assert {"model", "results.json", "evaluation", "metrics.csv", "curves.png"} <= names
    assert {"files.csv", "cases.csv", "cases.png", "recipe.yaml", "checkpoints"} <= names
    assert [result.images for result in report.results] == ["test", "validation"]
    results = read_json(folder / "results.json")
    assert results["results"]["test"]["miou"] == report.results[0].evaluation.miou
    assert 0 < results["health"]["cosine_to_mean"] <= 1
    assert {path.name for path in (folder / "evaluation").iterdir()} == {"test", "validation"}
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert all(0 <= float(row["val_miou"]) <= 1 and not row["val_top1"] for row in rows)
    with (folder / "files.csv").open() as file:
        first = next(csv.DictReader(file))
    assert first["mask"].startswith("masks/")


def test_colours_that_are_classes_are_learnt(drawn, tmp_path):
    recipe = small_recipe(drawn, "training.epochs=25", "head.momentum=0.95", "scene.scale=[1, 1.5]")
    report = train(recipe, tmp_path / "run", console=QUIET)
    assert report.results[0].evaluation.pixel_accuracy > 0.6


def test_what_is_loaded_segments_as_it_did_in_the_run(whole_run, drawn):
    folder, report, _ = whole_run
    recognizer = dnc.load(folder)
    scenes = open_scenes(drawn).test
    again = evaluate_scenes(recognizer, scenes)
    assert torch.equal(again.confusion, report.results[0].evaluation.confusion)
    assert recognizer.model.auxiliary is None
    assert recognizer.colours == scenes.colours
    one = recognizer.segment(scenes.path(0))[0]
    assert one.labels.shape == one.subcentroids.shape == (36, 48)
    assert np.array_equal(one.labels, recognizer.labels(scenes.read(0)))
    dnc.save(recognizer, folder.parent / "again")
    twice = dnc.load(folder.parent / "again")
    assert np.array_equal(one.labels, twice.labels(scenes.read(0)))
    assert twice.cases == recognizer.cases


def test_a_run_killed_in_its_second_epoch_and_resumed_ends_in_the_same_bits(
    whole_run, drawn, tmp_path
):
    folder, _, settings = whole_run
    killed = tmp_path / "killed"
    options = [*SMALL, *settings, f"data.path={drawn}"]
    killed_run(killed, options, epoch=1, recipe="scenes", step=1)
    train(small_recipe(drawn, *settings), killed, console=QUIET, resume=True)
    for name in ("model/model.safetensors", "checkpoints/last/training.safetensors"):
        ours, theirs = read_tensors(killed / name), read_tensors(folder / name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours), name
    states = [read_json(run / "checkpoints/last/training.json") for run in (killed, folder)]
    assert without_times(states[0]) == without_times(states[1])


def test_pixels_are_contrasted_in_training_alone_and_resumed_in_the_same_bits(drawn, tmp_path):
    settings = ["model.classifier=softmax", "segmenter.embedding=null", "training.epochs=2"]
    contrasted = [*settings, "segmenter.contrast=0.5", "segmenter.contrast_pixels=6"]
    train(small_recipe(drawn, *settings), tmp_path / "plain", console=QUIET)
    train(small_recipe(drawn, *contrasted), tmp_path / "whole", console=QUIET)
    killed = tmp_path / "killed"
    options = [*SMALL, *contrasted, f"data.path={drawn}"]
    killed_run(killed, options, epoch=1, recipe="scenes", step=1)
    train(small_recipe(drawn, *contrasted), killed, console=QUIET, resume=True)
    plain, whole, resumed = (
        read_tensors(tmp_path / name / "model" / "model.safetensors")
        for name in ("plain", "whole", "killed")
    )
    assert plain.keys() == whole.keys()  # what pixels are contrasted by is no part of the model
    assert not torch.equal(plain["head.weight"], whole["head.weight"])
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_two_processes_train_the_segmenter_of_one(tmp_path):
    # Layer norm and group norm alone, so that a batch may be divided; no dropout; pixels are drawn.
    divisible = [
        *(setting for setting in SMALL if not setting.startswith(("model.network", "segmenter."))),
        *("model.network=test_convnext", "segmenter.architecture=fcn", "segmenter.norm=group"),
        *("segmenter.channels=16", "segmenter.dropout=0", "scene.pixels_per_class=10"),
        *("optimizer.name=sgd", "optimizer.learning_rate=0.01", "data.validation_share=0"),
        *("head.training_scores=soft", "segmenter.auxiliary=0.4"),
    ]
    draw_scenes(tmp_path / "scenes", 12)
    runs = runs_of_one_and_two_processes(
        tmp_path / "scenes", tmp_path, recipe="scenes", divisible=divisible
    )
    one, two = (read_tensors(run / "checkpoints/last/model.safetensors") for run in runs)
    assert one.keys() == two.keys()
    for name, value in one.items():
        if value.is_floating_point():
            torch.testing.assert_close(two[name], value, rtol=0, atol=1e-6, msg=name)
        else:
            assert torch.equal(two[name], value), name


@pytest.mark.parametrize("kind", ["dnc", "softmax"])
def test_a_segmenter_begins_with_every_weight_of_a_classifier(drawn, tmp_path, kind):
    model, _ = classifier("test_resnet", 7, kind=kind, projection=24, image_size=64)
    seen = Preprocessing(64, 64, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    network = Network("test_resnet", 64, 24)
    earlier = Recognizer(model, network, tuple("abcdefg"), seen, {})
    dnc.save(earlier, tmp_path / "classifier")
    recipe = small_recipe(drawn).with_start(str(tmp_path / "classifier"))
    made = new_scene_recognizer(recipe, open_scenes(drawn))
    ours = made.model.state_dict()
    for name, value in model.state_dict().items():
        if name.startswith(("backbone.", "projection.")):
            assert torch.equal(ours[name], value), name
    assert {n for n in ours if n.startswith("backbone.")} == {
        n for n in model.state_dict() if n.startswith("backbone.")
    }
    assert made.preprocessing.mean == seen.mean
    assert made.model.maps.channels[-1] == 24
    report = train(recipe.with_settings(["training.epochs=1"]), tmp_path / "run", console=QUIET)
    assert (
        dnc.load(report.folder).notes["continued_from"] == dnc.load(tmp_path / "classifier").notes
    )


def test_a_segmenter_goes_on_from_another_with_its_decoder(whole_run, drawn, tmp_path):
    folder, _, _ = whole_run
    recipe = small_recipe(drawn).with_start(str(folder))
    made = new_scene_recognizer(recipe, open_scenes(drawn))
    earlier = dnc.load(folder).model.state_dict()
    for name, value in made.model.state_dict().items():
        if name.startswith(("backbone.", "decoder.")):
            assert torch.equal(value, earlier[name]), name
    other = recipe.with_settings(["segmenter.architecture=deeplabv3"])
    with pytest.raises(InvalidModel, match="give it the same segmenter"):
        new_scene_recognizer(other, open_scenes(drawn))


def test_a_class_that_no_scene_has_is_never_predicted(tmp_path):
    draw_scenes(tmp_path / "scenes", 8, classes=3)
    (tmp_path / "scenes" / "classes.yaml").write_text("classes: [a, b, c, never, seldom]\n")
    recipe = small_recipe(tmp_path / "scenes", "training.epochs=2")
    report = train(recipe, tmp_path / "run", console=QUIET)
    recognizer = dnc.load(report.folder)
    assert not recognizer.model.head.occupied[3:].any()
    for seed in range(5):
        noise = np.random.default_rng(seed).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        assert recognizer.labels(Image.fromarray(noise)).max() < 3
    columns = report.results[0].evaluation.confusion.sum(dim=0)
    assert columns[3:].tolist() == [0, 0]


def test_difficult_scenes_are_reported_by_path_and_survived(tmp_path):
    bad = draw_difficult_scenes(tmp_path / "scenes")
    (tmp_path / "scenes" / "classes.yaml").write_text("classes: [a, b, c, d]\n")
    console = Console(record=True, width=200, file=StringIO())
    recipe = small_recipe(tmp_path / "scenes", "training.epochs=1", "data.validation_share=0")
    report = train(recipe, tmp_path / "run", console=console)
    told = console.export_text()
    assert bad <= {file.path for file in report.set_aside}
    assert all(name in told for name in bad)


def test_a_scene_that_breaks_in_the_middle_of_a_run_is_left_out_and_listed(tmp_path):
    draw_scenes(tmp_path / "scenes", 9)
    broken = tmp_path / "scenes" / "images" / "004.png"
    whole = broken.read_bytes()
    # Its header is sound, so that only decoding finds it out.
    broken.write_bytes(whole[: len(whole) // 2])
    recipe = small_recipe(tmp_path / "scenes", "training.epochs=2", "data.validation_share=0")
    report = train(recipe, tmp_path / "run", console=QUIET)
    assert [file.path for file in report.set_aside] == ["images/004.png"]
    with (tmp_path / "run" / "set-aside.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 1


def test_a_folder_without_scenes_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(InvalidData, match="images and masks"):
        train(small_recipe(tmp_path), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_subcentroids_end_as_the_features_of_their_places(drawn, tmp_path):
    recipe = small_recipe(drawn, "head.anchored_share=0.4")
    report = train(recipe, tmp_path / "run", console=QUIET)
    recognizer = dnc.load(report.folder)
    head, cases = recognizer.model.head, recognizer.cases
    assert head.is_anchored
    assert cases.is_anchored
    scenes = open_scenes(drawn).train
    position = {number: place for place, number in enumerate(scenes.ids.tolist())}
    for case in cases.cases:
        place = Place.of(int(head.ties.ids[case.label, case.subcentroid]))
        assert place.image == case.image
        features, _ = recognizer.features(scenes.read(position[place.image]))
        own = torch.nn.functional.normalize(features[:, place.row, place.column], dim=0)
        found = head.centroids[case.label, case.subcentroid]
        torch.testing.assert_close(found, own, atol=1e-5, rtol=0)
        row, column = case.at
        assert (row, column) == (8 * place.row + 4, 8 * place.column + 4)
        mask = scenes.read_mask(position[place.image])
        assert mask[row, column] == case.label
    for label in range(4):
        places = [(*case.at, case.image) for case in cases.cases if case.label == label]
        assert len(set(places)) == len(places)


def test_as_many_epochs_are_run_as_have_the_iterations():
    recipe = Recipe.read("scenes").with_settings(["training.iterations=100"])
    batch = recipe.training.batch_size
    assert recipe.with_epochs_for(20 * batch + 3).training.epochs == 5
    assert recipe.with_epochs_for(3 * batch + 1).training.epochs == 25
    assert recipe.with_epochs_for(1).training.epochs == 100


def test_places_are_found_again_by_their_numbers_and_carry_the_class_of_their_pixel(
    whole_run, drawn
):
    recognizer = dnc.load(whole_run[0])
    scenes = open_scenes(drawn).train
    shown = ShownScenes(scenes, recognizer, workers=0)
    seen = shown.features(recognizer.model, divided=False)
    position = {number: place for place, number in enumerate(scenes.ids.tolist())}
    for number, label in list(zip(seen.ids.tolist(), seen.labels.tolist(), strict=True))[::7]:
        place = Place.of(number)
        mask = scenes.read_mask(position[place.image])
        assert mask[8 * place.row + 4, 8 * place.column + 4] == label
    some = seen.ids[5:9]
    only = shown.only(some.numpy()).features(recognizer.model, divided=False)
    order = [seen.ids.tolist().index(number) for number in only.ids.tolist()]
    assert sorted(only.ids.tolist()) == sorted(some.tolist())
    assert torch.equal(only.rows, seen.rows[order])
