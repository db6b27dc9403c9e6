"""Every study of the paper's tables takes a step, on stand-ins of the published layouts."""

from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from torch import nn

from dnc.study import Study, shipped_studies
from dnc.training.optimizers import optimizer, parameter_groups
from dnc.training.recipe_text import shipped_recipes
from dnc.training.run import job_for
from dnc.training.starting import ClustersOfData
from tests.data.drawings import draw_folder
from tests.data.test_published import (
    WNIDS,
    write_cifar10,
    write_cifar100,
    write_cub,
    write_imagenet,
)
from tests.data.test_scene_published import draw_ade, draw_cityscapes, draw_coco

STAND_INS = {
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "imagenet": lambda folder: write_imagenet(folder, flat=False),
    "cub200": write_cub,
    "ade20k": draw_ade,
    "cityscapes": lambda folder: draw_cityscapes(folder, ("labelTrainIds",)),
    "cocostuff10k": lambda folder: draw_coco(folder, converted=True),
}
# Of a row only this matters for whether it can be trained: rows that differ in numbers are one.
SHAPES = {
    "model": ("network", "classifier", "projection"),
    "segmenter": ("architecture", "contrast"),
    "head": ("assign", "offline_every", "fewest", "anchored_share"),
    "data": ("kind", "coarse"),
}


def shape_of(recipe):
    return tuple(
        str(getattr(getattr(recipe, s), f)) for s, fields in SHAPES.items() for f in fields
    )


def distinct_runs():
    found = {}
    for name in shipped_studies():
        study = Study.read(name)
        if study.paper_scale is not None:
            for run in study.at_scale("paper").planned():
                found.setdefault(shape_of(run.recipe), (f"{name}: {run.row}", run.recipe))
    return list(found.values())


RUNS = distinct_runs()


def made_small(recipe, folder, root):
    """The recipe with few and small images, and everything else as it is."""
    values = {
        "data.path": str(folder),
        "data.workers": 0,
        "data.evaluate_on": [],
        "model.start_from": None,
        "training.accelerator": "cpu",
        "training.batch_size": 2,
        "training.accumulate": 1,
        "training.epochs": 20,
        "training.iterations": None,
    }
    if recipe.task == "segmentation":
        values |= {"scene.crop": 64, "scene.window": None}
    else:
        size = 32 if recipe.data.kind.startswith("cifar") else 64
        values |= {"data.size": size, "data.resize": size, "data.download": False}
        values["head.memory_batches"] = min(recipe.head.memory_batches, 50)
    if recipe.data.coarse not in (None, "published"):
        table = root / "coarse.csv"
        table.write_text("fine,coarse\n" + "".join(f"{n},{n < WNIDS[1]}\n" for n in WNIDS))
        values["data.coarse"] = str(table)
    return recipe.with_values(values)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A stand-in of each data set, made when it is asked for."""
    root, made = tmp_path_factory.mktemp("data"), {}

    def folder(kind):
        if kind not in made:
            made[kind] = root / kind
            made[kind].mkdir()
            STAND_INS[kind](made[kind])
        return made[kind]

    return folder


@pytest.mark.parametrize(("name", "recipe"), RUNS, ids=[name for name, _ in RUNS])
def test_a_row_of_the_paper_takes_a_step(name, recipe, folders, tmp_path):
    small = made_small(recipe, folders(recipe.data.kind), tmp_path)
    job = job_for(small, Console(quiet=True))
    recognizer = job.new_recognizer()
    job.prepare(recognizer)
    data, module = job.data(recognizer), job.module(recognizer)
    data.trainer = SimpleNamespace(world_size=1, num_devices=1, global_rank=0, current_epoch=0)
    batch = next(iter(data.train_dataloader()))
    groups = parameter_groups(module.model, weight_decay=1e-4)
    steps = optimizer(groups, name=small.optimizer.name, learning_rate=1e-3)
    before = [value.detach().clone() for value in module.model.backbone.parameters()]
    loss = module.train().mean_loss(batch)
    assert loss.isfinite()
    loss.backward()
    steps.step()
    after = list(module.model.backbone.parameters())
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))
    head = module.model.head
    if small.head.offline_every is not None:
        places = head.centroids.clone()
        trainer = SimpleNamespace(current_epoch=small.head.offline_every)
        ClustersOfData(small, job.splits).on_train_epoch_start(trainer, module)
        assert not torch.equal(head.centroids, places)
    if not isinstance(head, nn.Linear):
        module.absorb(head)


def test_networks_that_a_row_begins_with_are_runs_of_shipped_recipes():
    begins = {recipe.model.start_from for _, recipe in RUNS} - {None}
    assert begins
    assert {path.removeprefix("runs/") for path in begins} <= set(shipped_recipes())


def test_each_data_set_of_the_paper_is_among_them():
    assert {recipe.data.kind for _, recipe in RUNS} == set(STAND_INS)


def test_the_sets_of_imagenetv2_are_opened_beside_imagenet(tmp_path):
    recipe = Study.read("table-a7-top-images").at_scale("paper").planned()[0].recipe
    # They number ImageNet's thousand classes, so all of them have to be there.
    wnids = [f"n{number:08d}" for number in range(1000)]
    for part in ("train", "val"):
        draw_folder(tmp_path / "imagenet" / part, dict.fromkeys(wnids, 1), size=8)
    small = made_small(recipe, tmp_path / "imagenet", tmp_path)
    kinds = {given.partition("=")[0] for given in recipe.data.evaluate_on}
    assert len(kinds) == 3
    for kind in kinds:
        draw_folder(tmp_path / f"{kind}-format-val", {"0": 1, "999": 1}, size=8)
    sets = [f"{kind}={tmp_path}" for kind in kinds]
    job = job_for(small.with_values({"data.evaluate_on": sets}), Console(quiet=True))
    job.prepare(job.new_recognizer())
    assert set(sets) <= set(job.sets)
