import json

import pytest
import torch
from PIL import Image
from torch import nn

import dnc
from dnc.centroids import Fidelity, SubCentroidHead, momentum_at, normalised
from dnc.centroids.similarity import similarity_to_own_class
from dnc.data import loader
from dnc.errors import InvalidRecipe
from dnc.training.building import new_recognizer
from dnc.training.features import Features, features_of
from dnc.training.recipe import Recipe
from dnc.training.run import opened, train
from dnc.training.starting import (
    IMAGES_PER_SUBCENTROID,
    start_from_features_,
    start_from_images_,
)
from tests.training.test_run import QUIET, SMALL, rows_of


def small_recipe(*settings: str) -> Recipe:
    return Recipe.read("digits").with_settings([*SMALL, "optimizer.ema=null", *settings])


@pytest.fixture(scope="module")
def started():
    recipe = small_recipe("model.centring=standard", "head.subcentroids=3")
    splits = opened(recipe, QUIET)
    recognizer = new_recognizer(recipe, splits)
    start_from_images_(recognizer.model, splits.train, recognizer.preprocessing, workers=0)
    return recognizer, splits


def features_in(recognizer, images):
    model = recognizer.model.eval()
    (batch,) = loader(images, recognizer.preprocessing, batch_size=len(images))
    with torch.no_grad():
        return model.features(batch.images), batch.labels


def test_subcentroids_that_start_from_data_are_means_of_their_clusters(started):
    recognizer, splits = started
    rows, labels = features_in(recognizer, splits.train)
    head = recognizer.model.head
    x = normalised(rows)
    assigned = head.assign(
        similarity_to_own_class(x, labels, head.centroids),
        labels,
        classes=10,
        valid=head.valid,
        epsilon=head.epsilon,
        iterations=head.iterations,
    )
    for label in range(10):
        for subcentroid in range(3):
            members = x[(labels == label) & (assigned == subcentroid)]
            mean = normalised(members.mean(dim=0, keepdim=True))[0]
            torch.testing.assert_close(head.centroids[label, subcentroid], mean)
            assert head.held[label, subcentroid] == len(members)


def test_features_that_start_from_data_are_centred(started):
    recognizer, splits = started
    rows, _ = features_in(recognizer, splits.train)
    torch.testing.assert_close(rows.mean(dim=0), torch.zeros(rows.shape[1]), atol=1e-4, rtol=0)
    # Where a dimension hardly varies, batch norm does not blow it up.
    assert rows.std(dim=0).max() < 1.01
    assert rows.std(dim=0).median() > 0.95


def test_many_images_of_a_class_are_represented_by_some(started):
    recognizer, splits = started
    whole = splits.train.counts()
    assert 6 < whole.max() <= IMAGES_PER_SUBCENTROID * 3
    for most, held in ((2, [6] * 10), (None, whole.tolist())):
        start_from_images_(
            recognizer.model, splits.train, recognizer.preprocessing, workers=0, most=most
        )
        assert recognizer.model.head.held.sum(dim=1).tolist() == held


def test_a_run_starts_from_data_and_knows_classes_before_it_has_learnt(tmp_path):
    settings = ("training.epochs=1", "optimizer.learning_rate=1e-9", "head.momentum=1")
    settings = (*settings, "model.fixed_norms=true", "model.centring=standard", "augment.mixup=0")
    top1 = {}
    for start in ("random", "data"):
        recipe = small_recipe(*settings, f"head.start={start}")
        report = train(recipe, tmp_path / start, console=QUIET)
        top1[start] = report.results[0].evaluation.top1
    assert top1["random"] < 0.3
    assert top1["data"] > 0.6


def test_a_start_from_data_may_wait_for_the_network_to_learn(tmp_path):
    settings = ("training.epochs=2", "optimizer.learning_rate=1e-9", "head.momentum=1")
    settings = (*settings, "model.fixed_norms=true", "augment.mixup=0", "head.start=data")
    recipe = small_recipe(*settings, "head.start_epoch=1")
    train(recipe, tmp_path / "run", console=QUIET)
    before, after = (rows_of(tmp_path / "run" / "metrics.csv")[epoch] for epoch in (0, 1))
    assert float(before["val_top1"]) < 0.3
    assert float(after["val_top1"]) > 0.6
    with pytest.raises(InvalidRecipe, match=r"start_epoch is 2 and training\.epochs 2"):
        small_recipe(*settings, "head.start_epoch=2")
    with pytest.raises(InvalidRecipe, match=r"head\.start is close"):
        small_recipe("head.start=close", "head.start_epoch=1")


def test_a_class_of_fewer_images_than_subcentroids_leaves_some_where_they_were():
    head = SubCentroidHead(6, 2, subcentroids=4)
    before = head.centroids.clone()
    rows = torch.rand(9, 6)
    labels = torch.tensor([0, 0] + [1] * 7)
    start_from_features_(head, nn.Identity(), Features(rows, labels, torch.arange(9), ()))
    torch.testing.assert_close(head.centroids.norm(dim=-1), torch.ones(2, 4))
    assert head.occupied.sum(dim=1).tolist() == [2, 4]
    assert torch.equal(head.centroids[~head.occupied], before[~head.occupied])


def test_averaged_weights_take_the_statistics_of_a_late_start_whole(tmp_path):
    settings = ("training.epochs=2", "head.start=data", "head.start_epoch=1", "augment.mixup=0")
    settings = (*settings, "model.centring=whitened", "optimizer.ema=0.9999")
    recipe = small_recipe(*settings, "training.validate_every=2")
    train(recipe, tmp_path / "run", console=QUIET)
    matrix = dnc.load(tmp_path / "run").model.centring.matrix
    # By the average alone it would still be what it was at first.
    assert (matrix - torch.eye(len(matrix))).abs().max() > 0.5


@pytest.mark.parametrize("fixed", [True, False])
def test_fixed_norms_keep_their_statistics(tmp_path, fixed):
    recipe = small_recipe("training.epochs=2", f"model.fixed_norms={fixed}".lower())
    before = new_recognizer(recipe, opened(recipe, QUIET)).model.backbone
    train(recipe, tmp_path / "run", console=QUIET)
    after = dnc.load(tmp_path / "run").model.backbone
    norms = [
        (one, other)
        for one, other in zip(before.modules(), after.modules(), strict=True)
        if isinstance(one, nn.BatchNorm2d)
    ]
    assert norms
    for one, other in norms:
        assert torch.equal(one.running_mean, other.running_mean) is fixed
        assert not torch.equal(one.weight, other.weight)  # it learns all the same


def test_a_momentum_by_the_length_of_the_run_is_that_of_the_schedule(tmp_path):
    recipe = small_recipe("training.epochs=2", "head.momentum=auto", "head.start=close")
    train(recipe, tmp_path / "run", console=QUIET)
    head = dnc.load(tmp_path / "run").model.head
    # What is kept is the best epoch, with the momentum of its last step.
    after = (momentum_at(epoch * 7 - 1, steps=2 * 7, classes=10, rows=32) for epoch in (1, 2))
    assert head.momentum in after


def test_a_run_that_settles_ends_with_means_of_its_images(tmp_path):
    least = {}
    for settles in ("true", "false"):
        settings = ("training.epochs=2", "head.start=random", f"head.settle={settles}")
        train(small_recipe(*settings), tmp_path / settles, console=QUIET)
        figures = json.loads((tmp_path / settles / "results.json").read_text())
        least[settles] = figures["health"]["cosine_to_mean"]
    assert least["false"] < 0.9
    assert least["true"] > 0.98
    recognizer = dnc.load(tmp_path / "true")
    images = opened(small_recipe(), QUIET).train
    features = features_of(
        recognizer.model, images, recognizer.preprocessing, cache=None, workers=0
    )
    kept = Fidelity.of(recognizer.model.head, features.rows, features.labels)
    cosines = kept.cosine_to_mean[kept.held > 0]
    assert float(cosines.mean()) == pytest.approx(least["true"], abs=1e-5)


def test_the_softmax_counterpart_has_the_same_centring(tmp_path):
    settings = ("training.epochs=1", "model.centring=whitened", "head.start=data")
    recipe = small_recipe(*settings, "model.classifier=softmax", "optimizer.learning_rate=1e-9")
    train(recipe, tmp_path / "run", console=QUIET)
    layer = dnc.load(tmp_path / "run").model.centring
    assert layer.mean.abs().sum() > 0
    with pytest.raises(InvalidRecipe, match=r"head\.start"):
        small_recipe("model.centring=whitened")


def test_a_run_without_rivals_ends_as_well(tmp_path):
    for name in ("train", "test"):
        folder = tmp_path / "images" / name / "only"
        folder.mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (16, 16), (40 * number, 90, 20)).save(folder / f"{number}.png")
    settings = ["training.epochs=1", "training.batch_size=2", "data.kind=null", "data.workers=0"]
    recipe = small_recipe(
        *settings, f"data.path={tmp_path / 'images'}", "data.train_per_class=null"
    )
    train(recipe, tmp_path / "run", console=QUIET)
    figures = json.loads((tmp_path / "run" / "results.json").read_text())
    assert "rival_cosine" not in figures["health"]
