"""Runs whose sub-centroids are tied to training images at the end."""

import copy
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from rich.console import Console
from torch.nn.functional import cross_entropy

import dnc
from dnc.centroids import class_scores, normalised, similarities
from dnc.data import open_data
from dnc.errors import InvalidModel, InvalidRecipe
from dnc.explanation.anchors import Candidates
from dnc.explanation.choosing import chosen_together
from dnc.models import Whitening
from dnc.training.anchoring import anchored
from dnc.training.checkpoint import Checkpoints
from dnc.training.features import features_of
from dnc.training.recipe import Recipe
from dnc.training.run import opened, train
from dnc.training.starting import set_centring_
from dnc.training.state import read_tensors
from dnc.training.tying import RUNNERS_UP, ShownImages, tie_
from tests.data.drawings import draw_folder
from tests.training.models import small_recognizer
from tests.training.other_processes import killed_run, runs_of_one_and_two_processes

# Four epochs, of which the last two are anchored.
SETTINGS = [
    *("training.epochs=4", "training.batch_size=32", "training.accelerator=cpu"),
    *("data.train_per_class=20", "data.size=8", "augment.padding=1", "augment.mixup=0.2"),
    *("optimizer.ema=0.9", "head.memory_batches=3", "head.anchored_share=0.5"),
    "head.anchor_choice=together",
    "head.settle=true",  # what is tied to an image is not put on a mean
]
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(Recipe.read("digits").with_settings(SETTINGS), folder, console=QUIET)
    return folder


def assert_anchored(folder: Path) -> None:
    """Every sub-centroid is what the network sees in its image; no image twice in a class."""
    recognizer = dnc.load(folder)
    head = recognizer.model.head
    assert torch.equal(head.occupied, head.ties.ids >= 0)
    assert head.occupied.any(dim=1).all()
    images = opened(Recipe.read(folder / "recipe.yaml"), QUIET).train
    seen = features_of(recognizer.model, images, recognizer.preprocessing, cache=None)
    for c, k in head.occupied.nonzero().tolist():
        position = int(np.flatnonzero(images.ids == int(head.ties.ids[c, k]))[0])
        assert images.labels[position] == c
        row = int((seen.ids == int(head.ties.ids[c, k])).nonzero())
        torch.testing.assert_close(
            head.centroids[c, k], normalised(seen.rows[row]), rtol=0, atol=1e-5
        )
    for of_class in head.ties.ids:
        tied = of_class[of_class >= 0]
        assert len(tied.unique()) == len(tied)


def test_subcentroids_end_as_the_features_of_their_images(whole_run):
    assert_anchored(whole_run)


def test_a_run_killed_in_its_anchored_part_and_resumed_ends_in_the_same_bits(tmp_path, whole_run):
    folder = tmp_path / "killed"
    killed_run(folder, SETTINGS, epoch=3)
    train(Recipe.read(folder / "recipe.yaml"), folder, console=QUIET, resume=True)
    for file in ("checkpoints/last/training.safetensors", "model/model.safetensors"):
        one, other = (read_tensors(run / file) for run in (whole_run, folder))
        assert one.keys() == other.keys()
        assert [name for name in one if not torch.equal(one[name], other[name])] == []


def test_only_an_anchored_epoch_is_kept(tmp_path):
    # The learning rate of the last epochs is nil, so the first anchored epoch is not better.
    recipe = Recipe.read("digits").with_settings(
        [*SETTINGS, "schedule.kind=step", "schedule.milestones=[0.1]", "schedule.gamma=0.000001"]
    )
    train(recipe, tmp_path / "run", console=QUIET)
    assert_anchored(tmp_path / "run")
    best = read_tensors(tmp_path / "run" / "checkpoints/best/model.safetensors")
    assert (best["head.ties.ids"] >= 0).any()


def test_without_images_to_validate_on_the_last_epoch_is_anchored_too(tmp_path):
    draw_folder(tmp_path / "images", {"red": 12, "green": 3})
    settings = ("data.kind=folder", "data.train_per_class=null", "data.validation_share=0")
    recipe = Recipe.read("digits").with_settings([*SETTINGS, *settings, "training.batch_size=4"])
    train(recipe.with_path(str(tmp_path / "images")), tmp_path / "run", console=QUIET)
    assert_anchored(tmp_path / "run")
    # Of four sub-centroids with three images one at least decides no more.
    assert 1 <= dnc.load(tmp_path / "run").model.head.occupied.sum(dim=1).tolist()[0] <= 3


def test_two_processes_tie_to_the_images_of_one(tmp_path):
    draw_folder(tmp_path / "images", {"red": 7, "green": 6, "blue": 6})
    runs = runs_of_one_and_two_processes(
        tmp_path / "images",
        tmp_path,
        [
            *("head.anchored_share=0.4", "head.anchor_choice=together"),
            *("head.only_correct=false",),
        ],
    )
    for run in runs:
        assert_anchored(run)
    one, two = (read_tensors(run / "model" / "model.safetensors") for run in runs)
    assert torch.equal(one["head.ties.ids"], two["head.ties.ids"])
    torch.testing.assert_close(one["head.centroids"], two["head.centroids"], rtol=0, atol=1e-4)


def test_whitening_is_by_what_the_network_sees_in_the_training_images(tmp_path):
    draw_folder(tmp_path / "images", {"red": 9, "green": 9, "blue": 9}, seed=3)
    splits = open_data(tmp_path / "images", validation_share=0.0)
    recognizer = small_recognizer(subcentroids=2, classes=splits.classes, seed=2)
    seen = features_of(recognizer.model, splits.train, recognizer.preprocessing, cache=None)
    layer = Whitening(recognizer.model.dim)
    set_centring_(layer, seen)
    whitened = anchored(recognizer, splits, choice="nearest", whitening=True, workers=0)
    torch.testing.assert_close(whitened.model.centring.matrix, layer.matrix)
    torch.testing.assert_close(whitened.model.centring.mean, layer.mean)
    x = normalised(layer(seen.rows))
    # No other temperature is better for the images that are no cases.
    others = ~torch.isin(seen.ids, whitened.model.head.ties.ids)
    cosines = class_scores(
        similarities(x[others], whitened.model.head.centroids), whitened.model.head.occupied
    )
    found = whitened.model.head.temperature
    losses = [
        float(cross_entropy(cosines.double() / temperature, seen.labels[others]))
        for temperature in (found, 0.97 * found, 1.03 * found, 0.07)
    ]
    assert min(losses) == losses[0]
    for c, k in whitened.model.head.occupied.nonzero().tolist():
        row = int((seen.ids == int(whitened.model.head.ties.ids[c, k])).nonzero())
        torch.testing.assert_close(whitened.model.head.centroids[c, k], x[row], rtol=0, atol=1e-5)
    centred = small_recognizer(centring="standard", classes=splits.classes)
    with pytest.raises(InvalidModel, match="do without whitening"):
        anchored(centred, splits, choice="nearest", whitening=True, workers=0)


def test_images_are_the_nearest_or_are_chosen_together_by_all_training_images(tmp_path):
    # So different that the nearest images are not those that decide best.
    draw_folder(tmp_path / "images", {"red": 9, "green": 9, "blue": 9}, seed=3)
    splits = open_data(tmp_path / "images", validation_share=0.0)
    recognizer = small_recognizer(subcentroids=2, classes=splits.classes, seed=2)
    shown = ShownImages(splits.train, recognizer.preprocessing, workers=0)
    seen = shown.features(recognizer.model, divided=False)
    rows = normalised(seen.rows), seen.labels, seen.ids
    candidates = Candidates.of(recognizer.model.head, runners_up=RUNNERS_UP)
    candidates.add(*rows)
    together = chosen_together(candidates, *rows, temperature=recognizer.model.head.temperature)
    expected = {"nearest": candidates.distinct(), "together": together}
    assert not torch.equal(expected["nearest"].row, together.row)
    for choice, found in expected.items():
        model = copy.deepcopy(recognizer.model)
        tie_(model, shown, choice=choice)
        assert torch.equal(model.head.ties.ids, found.row)
        torch.testing.assert_close(model.head.ties.similarity, found.similarity)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["head.anchored_share=0.1", "training.epochs=1"], "at least"),
        (["head.anchored_share=1"], "anchored_share"),
        (
            [
                *("head.anchored_share=0.5", "training.epochs=10"),
                *("head.start=data", "head.start_epoch=5"),
            ],
            "start_epoch",
        ),
    ],
)
def test_an_anchored_part_that_cannot_be_is_refused(settings, told):
    with pytest.raises(InvalidRecipe, match=told):
        Recipe.read("digits").with_settings(settings)


@pytest.mark.parametrize(
    ("epochs", "share", "first"), [(20, 0.1, 18), (4, 0.1, 3), (300, 0.1, 270), (2, 0.9, 0)]
)
def test_the_last_tenth_of_the_epochs_is_anchored_and_at_least_one(epochs, share, first):
    recipe = Recipe.read("digits").with_settings([f"training.epochs={epochs}"])
    settings = [f"head.anchored_share={share}"]
    if first == 0:
        with pytest.raises(InvalidRecipe, match="at least one epoch"):
            recipe.with_settings(settings)
    else:
        assert recipe.with_settings(settings).first_anchored_epoch == first
        linear = recipe.with_settings([*settings, "model.classifier=softmax"])
        assert linear.first_anchored_epoch is None


def test_the_best_epoch_so_far_does_not_count_once_anchoring_begins(tmp_path):
    saved = []

    class Engine:
        is_global_zero = False
        callback_metrics: ClassVar = {}
        current_epoch = 0

        def save_checkpoint(self, path):
            saved.append(path.name)

    engine, keeper = Engine(), Checkpoints(tmp_path, first_anchored_epoch=2)
    for epoch, accuracy in enumerate((0.9, 0.8, 0.5, 0.4, 0.6)):
        engine.current_epoch = epoch
        engine.callback_metrics = {"val/top1": torch.tensor(accuracy)}
        keeper.on_train_epoch_end(engine, None)
    assert saved == ["best", "last", "best", "last", "best"]
