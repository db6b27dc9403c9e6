import copy
import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dnc.errors import InvalidRecipe
from dnc.training.recipe import OF_CLASSIFICATION, OF_SEGMENTATION, Recipe, recipe_fields
from dnc.training.recipe_text import MOST_BYTES, shipped_recipes

# A value for each field that is not its default, as it is written on the command line.
VALUES = {
    "name": ("other", "other"),
    "about": ("some words", "some words"),
    "data.path": ("2024-05-01", "2024-05-01"),
    "data.kind": ("folder", "folder"),
    "data.validation_share": ("2e-1", 0.2),
    "task": ("segmentation", "segmentation"),
    "data.train_per_class": ("7", 7),
    "data.train_images": ("9", 9),
    "segmenter.architecture": ("upernet", "upernet"),
    "segmenter.output_stride": ("8", 8),
    "segmenter.channels": ("512", 512),
    "segmenter.separable": ("true", True),
    "segmenter.embedding": ("64", 64),
    "segmenter.dropout": ("0.3", 0.3),
    "segmenter.norm": ("group", "group"),
    "segmenter.auxiliary": ("0.4", 0.4),
    "segmenter.contrast": ("0.1", 0.1),
    "segmenter.contrast_temperature": ("0.2", 0.2),
    "segmenter.contrast_pixels": ("10", 10),
    "scene.crop": ("769", 769),
    "scene.scale": ("[0.75, 1.5]", (0.75, 1.5)),
    "scene.flip": ("false", False),
    "scene.colour_jitter": ("0.5", 0.5),
    "scene.hue": ("0.1", 0.1),
    "scene.shorter_side": ("512", 512),
    "scene.window": ("769", 769),
    "scene.pixels_per_class": ("100", 100),
    "training.iterations": ("160000", 160_000),
    "training.sync_norms": ("true", True),
    "data.check": ("false", False),
    "data.download": ("true", True),
    "data.size": ("96", 96),
    "data.resize": ("128", 128),
    "data.store": ("disk", "disk"),
    "data.workers": ("0", 0),
    "data.evaluate_on": ("[folder=elsewhere, more]", ("folder=elsewhere", "more")),
    "model.network": ("resnet20-cifar", "resnet20-cifar"),
    "model.classifier": ("softmax", "softmax"),
    "model.pretrained": ("weights.safetensors", "weights.safetensors"),
    "model.start_from": ("runs/earlier", "runs/earlier"),
    "model.projection": ("640", 640),
    "model.centring": ("standard", "standard"),
    "model.drop_path": ("0.2", 0.2),
    "model.fixed_norms": ("true", True),
    "head.subcentroids": ("[1, 2, 3]", (1, 2, 3)),
    "head.momentum": ("0.9", 0.9),
    "head.keep_length": ("true", True),
    "head.memory_batches": ("100", 100),
    "head.memory_dtype": ("bfloat16", "bfloat16"),
    "head.batch_means": ("true", True),
    "head.epsilon": ("1e-3", 0.001),
    "head.iterations": ("5", 5),
    "head.temperature": ("0.05", 0.05),
    "head.assign": ("kmeans", "kmeans"),
    "head.fewest": ("2", 2),
    "head.offline_every": ("2", 2),
    "head.only_correct": ("false", False),
    "head.reseed_after": ("50", 50),
    "head.start": ("data", "data"),
    "head.settle": ("true", True),
    "head.anchored_share": ("0.1", 0.1),
    "head.anchor_choice": ("together", "together"),
    "head.start_epoch": ("2", 2),
    "head.training_scores": ("nearest", "nearest"),
    "rival.mean_decay": ("0.5", 0.5),
    "rival.bank_temperature": ("0.1", 0.1),
    "rival.bank_momentum": ("0", 0.0),
    "rival.neighbours": ("5", 5),
    "data.coarse": ("folders", "folders"),
    "augment.crop": ("padded", "padded"),
    "augment.padding": ("2", 2),
    "augment.scale": ("[0.5, 0.9]", (0.5, 0.9)),
    "augment.ratio": ("[1, 1]", (1.0, 1.0)),
    "augment.flip": ("false", False),
    "augment.colour_jitter": ("0.4", 0.4),
    "augment.randaugment": ("2", 2),
    "augment.randaugment_magnitude": ("12", 12),
    "augment.erasing": ("0.25", 0.25),
    "augment.mixup": ("0.8", 0.8),
    "augment.cutmix": ("1", 1.0),
    "augment.mix_probability": ("1", 1.0),
    "optimizer.name": ("adamw", "adamw"),
    "optimizer.learning_rate": ("1e-3", 0.001),
    "optimizer.momentum": ("0.5", 0.5),
    "optimizer.nesterov": ("true", True),
    "optimizer.betas": ("[0.8, 0.9]", (0.8, 0.9)),
    "optimizer.weight_decay": ("0", 0.0),
    "optimizer.decay_all": ("false", False),
    "optimizer.clip": ("5", 5.0),
    "optimizer.ema": ("0.99", 0.99),
    "optimizer.label_smoothing": ("0.1", 0.1),
    "schedule.kind": ("step", "step"),
    "schedule.warmup_epochs": ("2.5", 2.5),
    "schedule.milestones": ("[0.3]", (0.3,)),
    "schedule.gamma": ("0.2", 0.2),
    "schedule.power": ("0.9", 0.9),
    "schedule.final": ("0.01", 0.01),
    "training.epochs": ("3", 3),
    "training.batch_size": ("32", 32),
    "training.accumulate": ("2", 2),
    "training.seed": ("4294967295", 2**32 - 1),
    "training.precision": ("bf16-mixed", "bf16-mixed"),
    "training.accelerator": ("cpu", "cpu"),
    "training.devices": ("2", 2),
    "training.nodes": ("4", 4),
    "training.validate_every": ("10", 10),
    "training.tensorboard": ("true", True),
}


@pytest.mark.parametrize("name", [*OF_CLASSIFICATION, *OF_SEGMENTATION])
def test_a_field_of_the_other_task_is_refused(name):
    task = "classification" if name in OF_SEGMENTATION else "segmentation"
    fields = [field for field in VALUES if field == name or field.startswith(f"{name}.")]
    for field in fields:
        with pytest.raises(InvalidRecipe, match=f"{name} is set, which means nothing"):
            Recipe(task=task).with_settings([f"{field}={VALUES[field][0]}"])
    assert fields


# What makes sense only beside another field.
NEEDED = {
    "head.start_epoch": ["head.start=data"],
    **{
        name: ["task=segmentation"]
        for name in VALUES
        if name.startswith(("segmenter.", "scene."))
        or name in ("data.train_images", "head.keep_length", "training.iterations")
    },
}


def value_at(recipe, name):
    for part in name.split("."):
        recipe = getattr(recipe, part)
    return recipe


def read(tmp_path, text):
    path = tmp_path / "some.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Recipe.read(path)


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_are_valid_and_called_like_their_files(name):
    recipe = Recipe.read(name)
    assert recipe.name == name
    assert recipe.about
    assert Recipe.read(shipped_recipes()[name]) == recipe


def test_every_field_has_a_description():
    assert all(field.description for field in recipe_fields())
    assert set(VALUES) == {field.name for field in recipe_fields()}


@pytest.mark.parametrize("name", VALUES)
def test_every_field_can_be_set_and_comes_back(name, tmp_path):
    text, value = VALUES[name]
    default = Recipe().with_settings(NEEDED.get(name, []))
    changed = default.with_settings([f"{name}={text}"])
    assert value_at(changed, name) == value
    assert type(value_at(changed, name)) is type(value)
    assert value_at(default, name) != value
    others = {field.name for field in recipe_fields()} - {name}
    assert all(value_at(changed, other) == value_at(default, other) for other in others)
    changed.write(tmp_path / "whole.yaml")
    assert Recipe.read(tmp_path / "whole.yaml") == changed
    (tmp_path / "short.yaml").write_text(changed.to_yaml(), encoding="utf-8")
    assert Recipe.read(tmp_path / "short.yaml") == changed


@pytest.mark.parametrize(
    ("task", "foreign"),
    [
        # The fewest are for one number of sub-centroids, not for one of each class; and where they
        # are clustered by the epoch they are not tied to images.
        ("classification", (*OF_SEGMENTATION, "task", "head.fewest", "head.offline_every")),
        ("segmentation", (*OF_CLASSIFICATION, "segmenter.separable", "head.start", "data.kind")),
    ],
)
def test_all_fields_of_a_task_at_once_come_back(task, foreign, tmp_path):
    values = {
        name: value
        for name, value in VALUES.items()
        if name not in foreign and name.partition(".")[0] not in foreign
    }
    changed = Recipe(task=task).with_settings(f"{n}={text}" for n, (text, _) in values.items())
    assert all(value_at(changed, name) == value for name, (_, value) in values.items())
    changed.write(tmp_path / "whole.yaml")
    assert Recipe.read(tmp_path / "whole.yaml") == changed


@pytest.mark.parametrize("name", [field.name for field in recipe_fields() if field.default is None])
def test_fields_without_a_default_can_be_emptied_again(name):
    changed = Recipe().with_settings([*NEEDED.get(name, []), f"{name}={VALUES[name][0]}"])
    for empty in ("null", "~", ""):
        assert value_at(changed.with_settings([f"{name}={empty}"]), name) is None


# Any letters, and often those that YAML folds, strips or gives a meaning to.
WORDS = st.text(max_size=40) | st.text("\x85\u2028\u2029\ufeff\xa0\r\n\t\"' :#-a", max_size=10)


@settings(max_examples=300, deadline=None)
@given(about=WORDS, path=WORDS)
def test_any_words_come_back(about, path, tmp_path_factory):
    recipe = Recipe.from_tree({"about": about, "data": {"path": path}})
    file = tmp_path_factory.getbasetemp() / "words.yaml"
    recipe.write(file)
    assert Recipe.read(file) == recipe


@pytest.mark.parametrize("number", ["1e-3", "1.0e-3", "0.001", ".001", "1E-3"])
def test_numbers_may_be_written_as_powers_of_ten(number, tmp_path):
    recipe = read(tmp_path, f"optimizer:\n  learning_rate: {number}\n")
    assert recipe.optimizer.learning_rate == 0.001


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("trainin:\n  epochs: 3", "'training'"),
        ("training:\n  epoch: 3", "'training.epochs'"),
        ("head:\n  temprature: 0.1", "'head.temperature'"),
        ("epochs: 3", "'training.epochs'"),
        ("optimizer:\n  batch_size: 3", "'training.batch_size'"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_one(text, meant, tmp_path):
    with pytest.raises(InvalidRecipe, match=f"no field.*Did you mean {meant}"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("training.epoch=3", "Did you mean 'training.epochs'"),
        ("epochs=3", "Did you mean 'training.epochs'"),
        ("training=3", "'training' is a section; .* 'training.epochs'"),
        ("training.epochs.more=3", "no field"),
        ("=3", "no field ''"),
        ("training.epochs", "section.field=value"),
        ("training.epochs=[", "not YAML"),
        ("training.epochs=\udc80", "not YAML"),
        ("training.epochs={a: 1}", "training.epochs is {'a': 1}"),
    ],
)
def test_a_setting_that_sets_nothing_is_refused(setting, told):
    with pytest.raises(InvalidRecipe, match=told):
        Recipe().with_settings([setting])


@pytest.mark.parametrize(
    "setting",
    [
        *("training.epochs=0", "training.epochs=1.5", "training.epochs=many", "training.epochs="),
        *("training.seed=-1", "training.seed=4294967296", "training.devices=0"),
        *("head.momentum=1.1", "head.momentum=.nan", "head.temperature=0", "head.epsilon=-.inf"),
        *("head.subcentroids=0", "head.subcentroids=[1, 0]", "head.memory_dtype=int8"),
        *("optimizer.learning_rate=0", "optimizer.learning_rate=1e999", "optimizer.betas=[0.9]"),
        *("optimizer.momentum=1", "optimizer.ema=1", "augment.padding=-1", "augment.mixup=101"),
        *("augment.scale=[0.9, 0.1]", "augment.ratio=[2, 1]", "augment.flip=maybe"),
        *("data.validation_share=1", "data.kind=cifar11", "data.workers=257", "data.size=0"),
        *("schedule.milestones=[1.5]", "schedule.gamma=0", "model.projection=0"),
        *("model.drop_path=1", "model.classifier=svm", "name=a/b", "name=", "data.evaluate_on=a"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_place(setting):
    name = setting.partition("=")[0]
    section, _, field = name.rpartition(".")
    with pytest.raises(InvalidRecipe) as caught:
        Recipe().with_settings([setting])
    assert name in str(caught.value) or (
        section in str(caught.value) and field in str(caught.value)
    )


def test_settings_that_contradict_each_other_are_refused():
    for wrong in (
        ["optimizer.nesterov=true", "optimizer.momentum=0"],
        ["schedule.kind=step", "schedule.milestones=[]"],
    ):
        with pytest.raises(InvalidRecipe):
            Recipe().with_settings(wrong)


CANARY = "canary"


@pytest.mark.parametrize(
    "text",
    [
        f"about: !!python/object/apply:os.system ['touch {CANARY}']",
        f"about: !!python/object/new:os.system ['touch {CANARY}']",
        "about: !!python/name:os.system",
        "about: !!python/module:os",
        "!!python/object:dnc.training.recipe.Recipe {}",
        "about: !!int ''",
        "about: !!bool perhaps",
        "about: !!timestamp never",
        "about: !!binary aGVsbG8=",
        "about: !!set {a, b}",
        "about: !own thing",
        "data: &a {path: x}\nmodel: *a",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]",
        "about: &a [*a]",
        "name: &a x\nabout: *a",
        "<<: {about: x}",
        "about: one\nabout: two",
        "data: {path: a, path: b}",
        "1: one",
        "true: one",
        "null: one",
        "[a, b]: one",
        "? {a: b}\n: one",
        "training: {2: 3}",
        "- one\n- two",
        "only words",
        "3",
        "",
        "--- \nabout: one\n---\nabout: two",
        "about: [",
        "\tabout: x",
        "about: \x00",
        b"about: \xff\xfe\xfd",
        b"\xff\xfeabout",
        "%YAML 9.9\n---\nabout: x",
        "optimizer: {learning_rate: " + "1:" + "0:" * 400 + "0.5}",
        "training: {epochs: " + "9" * 5000 + "}",
        "training: {epochs: 0b_}",
        'about: "\\ud800"',
        "about: " + "[" * 5000,
        "about: " + "{a: " * 5000,
        "- " * 5000,
        "training: " + "{epochs: 1}" * 2,
        "augment: []",
        "augment: null",
    ],
    ids=lambda text: repr(text[:40]),
)
def test_what_is_no_plain_mapping_is_refused_and_never_executed(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRecipe):
        read(tmp_path, text)
    assert not (tmp_path / CANARY).exists()


def test_a_file_that_is_no_page_is_refused_unread(tmp_path):
    with pytest.raises(InvalidRecipe, match="bytes"):
        read(tmp_path, "# " + "x" * MOST_BYTES)
    assert read(tmp_path, "about: x # " + "x" * 1000) == Recipe(about="x")


@pytest.mark.parametrize(
    "name",
    ["cifar10-laptp", "missing.yaml", "x" * 5000, "x" * 5000 + ".yaml", "a\0b", "a\0b.yaml", "."],
)
def test_a_recipe_that_is_not_there_is_told(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRecipe):
        Recipe.read(name)


def test_the_name_of_a_shipped_recipe_is_guessed():
    with pytest.raises(InvalidRecipe, match="Did you mean 'cifar10-laptop'"):
        Recipe.read("cifar10-laptp")


def test_a_folder_is_no_recipe(tmp_path):
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(InvalidRecipe, match="cannot be read"):
        Recipe.read(tmp_path / "folder.yaml")


def test_many_faults_are_told_in_few_words(tmp_path):
    wrong = ", ".join(f"{-number}" for number in range(5000))
    with pytest.raises(InvalidRecipe, match="more") as caught:
        read(tmp_path, f"head: {{subcentroids: [{wrong}]}}")
    assert len(str(caught.value)) < 3000


def test_the_path_alone_changes():
    recipe = Recipe.read("cifar10-laptop")
    moved = recipe.with_path("some/where")
    assert moved.data.path == "some/where"
    assert moved.with_settings([f"data.path={recipe.data.path or ''}"]) == recipe
    with pytest.raises(InvalidRecipe, match=r"data\.path"):
        recipe.with_path("\udc80")


def test_what_is_written_is_plain_yaml():
    tree = yaml.safe_load(Recipe().to_yaml(whole=True))
    assert Recipe.from_tree(copy.deepcopy(tree)) == Recipe()
    assert yaml.safe_load(Recipe().to_yaml()) == {}
    assert math.isclose(tree["augment"]["ratio"][1], 4 / 3)
