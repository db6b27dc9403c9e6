import shutil

import pytest
import torch
from safetensors.torch import save_file

import dnc
from dnc.errors import InvalidCheckpoint, InvalidRecipe
from dnc.rivals import ClassMeanHead, NeighbourHead
from dnc.training.recipe import Recipe
from dnc.training.run import job_for, opened, train
from dnc.training.state import read_tensors
from tests.cli.commands import refused
from tests.data.drawings import draw_folder
from tests.training.other_processes import killed_run, runs_of_one_and_two_processes
from tests.training.test_run import QUIET, SMALL, small_recipe

KINDS = {"deepncm": ClassMeanHead, "deepnca": NeighbourHead}


def settings_of(kind: str) -> list[str]:
    plain = ("augment.mixup=0", "optimizer.ema=null", "optimizer.learning_rate=0.02")
    return [f"model.classifier={kind}", "training.epochs=8", *plain]


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / request.param
    report = train(small_recipe(*settings_of(request.param)), folder, console=QUIET)
    return request.param, folder, report


def test_a_rival_learns_in_the_same_training(run):
    kind, folder, report = run
    assert report.results[0].evaluation.top1 > 0.3  # of ten classes, after 48 steps
    recognizer = dnc.load(folder)
    assert type(recognizer.model.head) is KINDS[kind]
    assert recognizer.model.kind == kind
    assert not (folder / "cases.csv").exists()
    assert next(iter(recognizer.predict([torch.zeros(3, 8, 8)]))).case is None


def test_a_rival_that_is_killed_and_resumed_ends_in_the_same_bits(run, tmp_path):
    kind, whole, _ = run
    folder = tmp_path / "killed"
    killed_run(folder, [*SMALL, *settings_of(kind)], epoch=2)
    train(Recipe.read(folder / "recipe.yaml"), folder, console=QUIET, resume=True)
    states = [
        read_tensors(one / "checkpoints" / "last" / "training.safetensors")
        for one in (whole, folder)
    ]
    assert states[0].keys() == states[1].keys()
    assert [name for name in states[0] if not torch.equal(states[0][name], states[1][name])] == []


def test_the_bank_holds_the_training_images_and_no_other(run):
    kind, folder, _ = run
    if kind != "deepnca":
        return
    head = dnc.load(folder).model.head
    images = opened(small_recipe(), QUIET).train
    assert sorted(head.ids.tolist()) == sorted(images.ids.tolist())
    label_of = dict(zip(images.ids.tolist(), images.labels.tolist(), strict=True))
    assert [label_of[number] for number in head.ids.tolist()] == head.labels.tolist()
    assert head.is_seen.all()


OFFLINE = ["head.assign=kmeans", "head.offline_every=1", "head.memory_batches=0"]


@pytest.mark.parametrize(
    "settings",
    [*([f"model.classifier={kind}"] for kind in KINDS), OFFLINE],
    ids=[*KINDS, "k-means"],
)
def test_two_processes_train_the_rival_of_one(settings, tmp_path):
    draw_folder(tmp_path / "images", {"red": 7, "green": 6, "blue": 6})
    one, two = runs_of_one_and_two_processes(
        tmp_path / "images", tmp_path, [*settings, "training.epochs=2"]
    )
    first, second = (read_tensors(folder / "model" / "model.safetensors") for folder in (one, two))
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=1e-3, atol=1e-4)


def test_offline_clusters_are_those_of_all_training_images_and_stand_still_between(tmp_path):
    recipe = small_recipe(
        *("head.assign=kmeans", "head.offline_every=2", "head.memory_batches=0"),
        *("augment.mixup=0", "optimizer.ema=null"),
    )
    train(recipe, tmp_path / "run", console=QUIET)
    recognizer = dnc.load(tmp_path / "run" / "checkpoints" / "last")
    head = recognizer.model.head
    # Clustered once, before the third and last epoch: all images are held, and by the nearest.
    assert head.held.sum(dim=1).tolist() == [20] * 10
    assert int(head.steps) == 1


def test_offline_clusters_that_never_come_are_refused():
    with pytest.raises(InvalidRecipe, match=r"head\.offline_every is 3 and training\.epochs 3"):
        small_recipe("head.offline_every=3")


def test_broadcast_leaves_out_heads_and_nothing_else():
    for kind in ("dnc", *KINDS):
        recipe = small_recipe(*settings_of(kind), "model.centring=standard")
        job = job_for(recipe, QUIET)
        module = job.module(job.new_recognizer())
        exempt = set(module._ddp_params_and_buffers_to_ignore)
        assert exempt == {name for name, _ in module.named_buffers() if ".head." in name}
        assert any("running_mean" in name for name, _ in module.named_buffers())


def test_clusters_by_the_epoch_and_images_exclude_each_other():
    with pytest.raises(InvalidRecipe, match="cannot be clusters and images at once"):
        small_recipe("head.offline_every=1", "head.anchored_share=0.4")


@pytest.mark.parametrize("mixing", ["mixup", "cutmix"])
def test_a_bank_of_images_is_not_trained_with_mixtures_of_two(mixing):
    with pytest.raises(InvalidRecipe, match="none for mixtures of two"):
        small_recipe("model.classifier=deepnca", "augment.mixup=0", f"augment.{mixing}=0.2")


@pytest.mark.parametrize("command", ["cases", "explain", "report", "anchor"])
def test_what_needs_cases_says_which_kind_of_model_it_got(run, command, tmp_path):
    kind, folder, _ = run
    draw_folder(tmp_path / "images", {"0": 2, "1": 2}, size=8)
    given = {"cases": [], "explain": [tmp_path / "images" / "0"]}.get(
        command, [tmp_path / "images"]
    )
    assert f"of kind '{kind}'" in refused(command, folder, *given)


@pytest.mark.parametrize("damage", ["labels", "ids", "bank"])
def test_a_bank_that_cannot_be_is_refused(run, damage, tmp_path):
    kind, folder, _ = run
    if kind != "deepnca":
        return
    shutil.copytree(folder / "model", tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = read_tensors(file)
    tensors[f"head.{damage}"].view(-1)[0] = torch.nan if damage == "bank" else 1000
    save_file(tensors, file)
    with pytest.raises(InvalidCheckpoint, match="in the bank of"):
        dnc.load(tmp_path / "model")


def test_a_rival_of_segmenters_is_refused():
    with pytest.raises(InvalidRecipe, match="deepncm, which is for task class"):
        Recipe.read("scenes").with_settings(["model.classifier=deepncm"])
