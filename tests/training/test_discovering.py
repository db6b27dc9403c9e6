import csv
import json
import shutil

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

import dnc
from dnc.centroids import normalised
from dnc.errors import InvalidData
from dnc.training.discovering import discovered, fine_labels
from dnc.training.features import features_of
from dnc.training.results import split_of_training
from dnc.training.run import opened, train
from tests.data.drawings import draw_folder
from tests.training.test_run import QUIET, small_recipe

ODD = "fine,coarse\n" + "".join(f"{n},{'odd' if n % 2 else 'even'}\n" for n in range(10))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Digits that were learnt as odd and even, and their recipe."""
    root = tmp_path_factory.mktemp("runs")
    (root / "odd.csv").write_text(ODD)
    recipe = small_recipe(f"data.coarse={root / 'odd.csv'}", "optimizer.ema=null")
    return root / "run", train(recipe, root / "run", console=QUIET), recipe


def test_a_run_on_coarse_classes_tells_what_it_has_found_of_the_finer_ones(run):
    folder, report, _ = run
    assert dnc.load(folder).classes == ("even", "odd")
    result = report.results[0]
    figures = json.loads((folder / "results.json").read_text())["results"]["test"]
    assert result.discovery is not None
    assert result.discovery.classes == 10
    assert figures["induction"] == result.discovery.induction
    assert figures["purity"] == result.discovery.match.purity
    for name in ("evaluation.json", "finer-classes.csv", "finer-classes.png"):
        assert (folder / "discovery" / "test" / name).is_file(), name
    with (folder / "discovery" / "test" / "finer-classes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["images"]) for row in rows) == result.evaluation.images


def test_induction_accuracy_of_a_run_is_that_of_its_nearest_training_image(run):
    folder, report, recipe = run
    recognizer, splits = dnc.load(folder), opened(recipe, QUIET)
    bank, queries = (
        features_of(recognizer.model, images, recognizer.preprocessing, cache=None)
        for images in (splits.train, splits.test)
    )
    nearest = KNeighborsClassifier(1, metric="cosine").fit(
        bank.rows.numpy(), fine_labels(splits.train, bank).numpy()
    )
    expected = nearest.score(queries.rows.numpy(), fine_labels(splits.test, queries).numpy())
    assert report.results[0].discovery.induction == pytest.approx(expected, abs=2 / 450)


def test_a_case_holds_the_images_of_its_class_that_are_nearest_to_it(run):
    folder, _, recipe = run
    recognizer, splits = dnc.load(folder), opened(recipe, QUIET)
    found = discovered(recognizer, splits.train, splits.test)
    head = recognizer.model.head
    for i in range(0, 450, 50):
        label = found.features.labels[i]
        cosines = head.centroids[label] @ normalised(found.features.rows[i : i + 1])[0]
        cosines[~head.occupied[label]] = -torch.inf
        assert int(cosines.argmax()) == int(found.subcentroid[i])


def test_elsewhere_images_get_the_coarse_classes_that_the_model_knows(run):
    recognizer = dnc.load(run[0])
    splits = split_of_training(recognizer, "digits", kind="digits")
    assert splits.classes == ("even", "odd")
    assert splits.test.fine_labels is not None


def test_images_without_finer_classes_are_refused(run):
    folder, _, _ = run
    splits = opened(small_recipe(), QUIET)
    with pytest.raises(InvalidData, match="has no classes finer than those of the model"):
        discovered(dnc.load(folder), splits.train, splits.test)


FINE = ("blue", "green", "grey", "red")
WARM = "fine,coarse\nred,warm\nblue,cold\ngreen,cold\ngrey,warm\nyellow,warm\n"


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """A model of warm and cold colours, its images, and the folder with both."""
    root = tmp_path_factory.mktemp("colours")
    draw_folder(root / "train", dict.fromkeys(FINE, 6))
    (root / "warm.csv").write_text(WARM)
    # Copies of training images: of some finer classes, and of one coarse class alone.
    sets = {"some": ("green", "grey", "red"), "reds": ("red",)}
    for name, fine in sets.items():
        for one in fine:
            shutil.copytree(root / "train" / one, root / name / one)
    draw_folder(root / "plain", {"warm": 4, "cold": 4})
    recipe = small_recipe(
        *("data.kind=folder", f"data.path={root / 'train'}", f"data.coarse={root / 'warm.csv'}"),
        *("data.validation_share=0", "data.train_per_class=null", "optimizer.ema=null"),
    )
    given = [f"folder={root / name}" for name in (*sets, "plain")]
    recipe = recipe.with_values({"data.evaluate_on": given})
    report = train(recipe, root / "run", console=QUIET)
    return root, {result.images.rpartition("/")[2]: result for result in report.results}


def test_finer_classes_are_matched_by_name_where_some_are_missing(colours):
    root, results = colours
    for name in ("some", "reds"):  # every image is among the training images
        assert results[name].discovery.induction == 1
    assert results["some"].discovery.classes == 3
    assert results["reds"].discovery.match.mutual_information is None
    figures = json.loads((root / "run" / "results.json").read_text())["results"]
    reds = next(value for name, value in figures.items() if name.endswith("reds"))
    assert reds["mutual_information"] is None


def test_images_that_are_labelled_coarsely_are_evaluated_as_they_are(colours):
    root, results = colours
    assert results["plain"].discovery is None
    assert results["plain"].evaluation.images == 8
    splits = split_of_training(dnc.load(root / "run"), root / "plain", kind="folder")
    assert splits.classes == ("cold", "warm")


def test_a_finer_class_that_only_the_file_names_gets_its_coarse_class(colours, tmp_path):
    root, _ = colours
    draw_folder(tmp_path / "new", {"yellow": 3, "blue": 3})
    splits = split_of_training(dnc.load(root / "run"), tmp_path / "new", kind="folder")
    assert splits.classes == ("cold", "warm")
    assert splits.train.fine_classes == ("blue", "yellow")


def test_a_finer_class_that_nobody_has_named_is_refused(colours, tmp_path):
    draw_folder(tmp_path / "new", {"violet": 3, "blue": 3})
    with pytest.raises(InvalidData, match=r"say nothing of violet \(1 of 2 classes\)"):
        split_of_training(dnc.load(colours[0] / "run"), tmp_path / "new", kind="folder")
