import json
import os
import pickle
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dnc
from dnc.errors import DNCError, InvalidCheckpoint
from dnc.files import whole_folder
from dnc.models.heads import settings_of
from dnc.recognition import Network
from dnc.training import rebuilding
from dnc.training.checkpoint import (
    FORMAT,
    CheckpointFolders,
    checkpoint_folder,
    describe,
    portable_weights,
    read_description,
)
from dnc.training.state import read_tensors, write_tensors
from tests.training.models import CLASSES, small_recognizer

IMAGES = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(1))
KINDS = {
    "dnc": {},
    "softmax": {"kind": "softmax"},
    "projected": {"projection": 10},
    "projected-softmax": {"kind": "softmax", "projection": 10},
    "centred": {"centring": "standard"},
    "whitened": {"centring": "whitened"},
    "per-class": {"subcentroids": (1, 3, 2)},
    "all": {"subcentroids": (2, 1, 1), "centring": "standard", "projection": 5, "memory_rows": 30},
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "model"
    dnc.save(small_recognizer(), path)
    return path


@pytest.fixture
def checkpoint(kept, tmp_path):
    return Path(shutil.copytree(kept, tmp_path / "model"))


def change(folder, change_):
    path = folder / "model.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    change_(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")


def change_weights(folder, **changed):
    tensors = read_tensors(folder / "model.safetensors")
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    for name, value in changed.items():
        tensors[name.replace("__", ".")] = value
    write_tensors(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_what_is_loaded_gives_the_same_bits(settings, tmp_path):
    made = small_recognizer(**settings)
    dnc.save(made, tmp_path / "model")
    loaded = dnc.load(tmp_path / "model")
    assert loaded.classes == CLASSES
    assert loaded.network == made.network
    assert loaded.preprocessing == made.preprocessing
    assert loaded.notes["about"] == "a test"
    assert not loaded.model.training
    with torch.no_grad():
        assert torch.equal(loaded.model(IMAGES), made.model(IMAGES))
    if made.model.is_dnc:
        assert settings_of(loaded.model.head) == settings_of(made.model.head)
    weights = portable_weights(made.model)
    assert loaded.model.state_dict().keys() == weights.keys()
    pixels = [(image * 40 + 128).clamp(0, 255).byte() for image in IMAGES]
    assert loaded.predict(pixels) == made.predict(pixels)


def test_saving_what_was_loaded_writes_the_same_bytes(kept, tmp_path):
    dnc.save(dnc.load(kept), tmp_path / "again")
    for name in ("model.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (kept / name).read_bytes()
    assert sorted(os.listdir(kept)) == ["model.json", "model.safetensors"]
    assert os.listdir(kept.parent) == ["model"]


def test_class_names_stay_readable_in_the_file(kept):
    assert "Äpfel" in (kept / "model.json").read_text(encoding="utf-8")


def test_the_memory_is_not_part_of_a_portable_model(tmp_path):
    made = small_recognizer(memory_rows=30)
    dnc.save(made, tmp_path / "model")
    assert not any("memory" in name for name in read_tensors(tmp_path / "model/model.safetensors"))
    assert dnc.load(tmp_path / "model").model.head.memory is None


def test_a_model_without_a_network_of_a_name_is_refused(tmp_path):
    with pytest.raises(InvalidCheckpoint, match="by name"):
        dnc.save(replace(small_recognizer(), network=None), tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "changes",
    [
        {"notes": {"made by": object()}},
        {"notes": {"word": "\ud800"}},
        {"classes": ("a", "b", "\ud800")},
        {"classes": ()},
    ],
    ids=["object", "note", "class", "no classes"],
)
def test_what_no_file_can_hold_is_refused_when_it_is_saved(changes, tmp_path):
    with pytest.raises(InvalidCheckpoint):
        dnc.save(replace(small_recognizer(), **changes), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_numbers_that_json_has_not_are_kept_as_nothing(tmp_path):
    dnc.save(replace(small_recognizer(), notes={"loss": float("nan")}), tmp_path / "model")
    assert dnc.load(tmp_path / "model").notes["loss"] is None


def test_a_newer_format_is_told_as_such(checkpoint):
    change(checkpoint, lambda tree: tree.update(format=FORMAT + 1, something="new"))
    with pytest.raises(InvalidCheckpoint, match=f"format {FORMAT + 1}.*newer dnc"):
        dnc.load(checkpoint)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_missing_or_damaged_file_is_told(name, checkpoint):
    whole = (checkpoint / name).read_bytes()
    for length in (0, 1, 7, 8, 9, len(whole) // 2, len(whole) - 3):
        (checkpoint / name).write_bytes(whole[:length])
        with pytest.raises(InvalidCheckpoint, match="model"):
            dnc.load(checkpoint)
    (checkpoint / name).write_bytes(whole + b"more")
    with pytest.raises(InvalidCheckpoint):
        dnc.load(checkpoint)
    (checkpoint / name).unlink()
    with pytest.raises(InvalidCheckpoint):
        dnc.load(checkpoint)


OTHERS = {
    "softmax": {"kind": "softmax"},
    "projected": {"projection": 10},
    "centred": {"centring": "standard"},
    "one more": {"subcentroids": 3},
    "per class": {"subcentroids": (2, 1, 1)},
    "four classes": {"classes": ("a", "b", "c", "d")},
}


@pytest.mark.parametrize("settings", OTHERS.values(), ids=OTHERS)
def test_files_of_two_models_do_not_go_together(settings, checkpoint, tmp_path):
    other = tmp_path / "other"
    dnc.save(small_recognizer(**settings), other)
    first, second = checkpoint / "model.safetensors", other / "model.safetensors"
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    for folder in (checkpoint, other):
        with pytest.raises(InvalidCheckpoint):
            dnc.load(folder)


def set_at(*path, value):
    def changed(tree):
        *sections, field = path
        for section in sections:
            tree = tree[section]
        tree[field] = value

    return changed


WRONG = {
    "no network": ("network", "name", "no-such-network"),
    "no name": ("network", "name", ""),
    "a hub": ("network", "name", "hf-hub:timm/resnet18.a1_in1k"),
    "a hub, other spelling": ("network", "name", "hf_hub:timm/resnet18.a1_in1k"),
    "a folder": ("network", "name", "local-dir:."),
    "a path": ("network", "name", "../resnet18"),
    "an address": ("network", "name", "https://example.org/resnet18"),
    "a tag that is none": ("network", "name", "resnet18.hf-hub"),
    "another network": ("network", "name", "resnet18-cifar"),
    "a giant": ("network", "name", "vit_giant_patch14_224"),
    "giant images": ("network", "size", 10**9),
    "no images": ("network", "size", 0),
    "giant projection": ("network", "projection", 10**9),
    "beyond 64 bits": ("network", "projection", 10**30),
    "projection to nothing": ("network", "projection", 0),
    "negative projection": ("network", "projection", -1),
    "unknown setting of the network": ("network", "depth", 3),
    "giant number of sub-centroids": ("head", "subcentroids", 10**9),
    "giant numbers": ("head", "subcentroids", [10**9, 1, 1]),
    "no sub-centroids": ("head", "subcentroids", 0),
    "no numbers": ("head", "subcentroids", []),
    "two numbers": ("head", "subcentroids", [2, 2]),
    "negative temperature": ("head", "temperature", -1),
    "no iterations": ("head", "iterations", 0),
    "giant float": ("head", "epsilon", 10**400),
    "unknown rule": ("head", "assign", "os.system"),
    "unknown type": ("head", "memory_dtype", "int8"),
    "unknown setting of the head": ("head", "shape", 3),
    "no classes": ("classes", []),
    "many classes": ("classes", ["a"] * 100_000),
    "classes that are no words": ("classes", [1, 2, 3]),
    "a number of classes": ("classes", 3),
    "format": ("format", 0),
    "format that is no number": ("format", "1"),
    "task": ("task", "segmentation"),
    "classifier": ("classifier", "svm"),
    "the other classifier": ("classifier", "softmax"),
    "unknown key": ("code", "import os"),
    "notes that are no mapping": ("notes", ["a"]),
    "giant preprocessing": ("preprocessing", "resize", 10**9),
    "preprocessing by zero": ("preprocessing", "std", [0, 0, 0]),
    "unknown preprocessing": ("preprocessing", "code", "x"),
    "preprocessing of one channel": ("preprocessing", "mean", [0.5]),
    "no preprocessing": ("preprocessing", {}),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_description_that_cannot_be_is_refused_without_memory(case, checkpoint):
    *path, value = case
    change(checkpoint, set_at(*path, value=value))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidCheckpoint):
        dnc.load(checkpoint)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kilobytes; the smallest of these would take gigabytes


def test_no_network_is_fetched_from_where_a_description_says(checkpoint, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("asked for a network")

    monkeypatch.setattr(rebuilding, "backbone", refuse)
    for name in ("hf-hub:timm/resnet18", "local-dir:.", "a/b", "a\\b", "a b", "a\n", "é", "a:b"):
        change(checkpoint, set_at("network", "name", value=name))
        with pytest.raises(InvalidCheckpoint, match="letters"):
            dnc.load(checkpoint)


@pytest.mark.parametrize(
    "case",
    [
        ("network", "name", "resnet18-cifar"),
        ("network", "projection", 128),
        ("head", "subcentroids", 3),
        ("head", "subcentroids", [2, 2, 9]),
        ("classes", ["a", "b", "c", "d"]),
        ("classifier", "softmax"),
    ],
    ids=str,
)
def test_nothing_is_built_before_the_file_is_known_to_fit(case, checkpoint, monkeypatch):
    built = []
    monkeypatch.setattr(rebuilding, "classifier", lambda *args, **kwargs: built.append(args))
    *path, value = case
    change(checkpoint, set_at(*path, value=value))
    with pytest.raises(InvalidCheckpoint, match="asked for"):
        dnc.load(checkpoint)
    assert not built


def test_a_network_that_needs_far_more_than_its_weights_is_refused(checkpoint, monkeypatch):
    monkeypatch.setattr(rebuilding, "AND_BYTES", 0)
    monkeypatch.setattr(rebuilding, "MOST_TIMES_THE_FILE", 0.5)
    with pytest.raises(InvalidCheckpoint, match="bytes"):
        dnc.load(checkpoint)


def test_masks_of_giant_images_count_before_they_are_made():
    small = rebuilding.empty_network(Network("swin-t", 224), None)
    large = rebuilding.empty_network(Network("swin-t", 8192), None)
    assert small.shapes == large.shapes
    weights = 4 * 28_000_000
    limit = rebuilding.MOST_TIMES_THE_FILE * weights + rebuilding.AND_BYTES
    assert small.bytes < limit < large.bytes


@pytest.mark.parametrize(
    "changed",
    [
        {"head__centroids": torch.full((3, 2, 64), torch.nan)},
        {"head__centroids": torch.zeros(3, 2, 64, dtype=torch.int32)},
        {"head__centroids": torch.zeros(3, 2, 64, dtype=torch.complex64)},
        {"head__valid": torch.zeros(3, 2, dtype=torch.bool)},
        {"head__valid": torch.ones(3, 2)},
        {"head__steps": torch.tensor(1.0)},
        {"head__occupied": torch.ones(2, 2, dtype=torch.bool)},
        {"head__more": torch.ones(2)},
        {"backbone__0__weight": torch.ones(16, 3, 3, 3, dtype=torch.uint8)},
    ],
    ids=lambda changed: " ".join(f"{name} {value.dtype}" for name, value in changed.items()),
)
def test_weights_that_do_not_fit_are_refused(changed, checkpoint):
    change_weights(checkpoint, **changed)
    with pytest.raises(InvalidCheckpoint):
        dnc.load(checkpoint)


def test_a_place_that_is_not_used_cannot_have_absorbed_rows(tmp_path):
    dnc.save(small_recognizer(subcentroids=(1, 2, 2)), tmp_path / "model")
    change_weights(tmp_path / "model", head__occupied=torch.ones(3, 2, dtype=torch.bool))
    with pytest.raises(InvalidCheckpoint, match="sub-centroids"):
        dnc.load(tmp_path / "model")


def test_weights_in_half_precision_are_loaded(checkpoint):
    half = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in read_tensors(checkpoint / "model.safetensors").items()
    }
    write_tensors(half, checkpoint / "model.safetensors")
    loaded = dnc.load(checkpoint).model.state_dict()
    assert loaded["backbone.0.weight"].dtype == torch.float32
    assert torch.equal(loaded["backbone.0.weight"], half["backbone.0.weight"].float())


@pytest.mark.parametrize(
    "notes",
    [{}, {"recipe": 3, "data": None, "versions": [], "results": {"a": {"b": [1e308]}}}, {"": ""}],
    ids=str,
)
def test_notes_may_be_anything(notes, checkpoint):
    change(checkpoint, set_at("notes", value=notes))
    assert dnc.load(checkpoint).notes == notes


def test_deep_notes_are_loaded_or_refused(checkpoint):
    text = (checkpoint / "model.json").read_text(encoding="utf-8")
    for levels in (100, 400, 900, 5000, 200_000):
        deep = "[" * levels + "]" * levels
        (checkpoint / "model.json").write_text(
            text.replace('"notes": {', f'"notes": {{"deep": {deep},')
        )
        try:
            dnc.save(dnc.load(checkpoint), checkpoint.parent / "again")
        except InvalidCheckpoint:
            assert levels > 100


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_pickles_are_never_executed(name, checkpoint, tmp_path):
    canary = tmp_path / "canary"
    torch.save(Touch(canary), tmp_path / "torch.pt")
    for payload in (pickle.dumps(Touch(canary)), (tmp_path / "torch.pt").read_bytes()):
        (checkpoint / name).write_bytes(payload)
        with pytest.raises(InvalidCheckpoint):
            dnc.load(checkpoint)
        assert not canary.exists()
    pickle.loads(pickle.dumps(Touch(canary)))
    assert canary.exists()


def test_what_is_no_checkpoint_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "model.json.d").mkdir()
    for path in (tmp_path, "missing", "file", ".", "/", "", "a\0b", "x" * 5000, "model.json.d"):
        with pytest.raises(InvalidCheckpoint):
            dnc.load(path)


def test_a_checkpoint_is_loaded_from_within(checkpoint, monkeypatch):
    monkeypatch.chdir(checkpoint)
    assert dnc.load(".").classes == CLASSES
    assert dnc.load("../model").classes == CLASSES
    assert dnc.load(str(checkpoint)).classes == CLASSES


def test_of_a_run_the_model_comes_first_then_the_best_then_the_last(kept, tmp_path):
    places = [tmp_path / name for name in ("checkpoints/last", "checkpoints/best", "model")]
    for place in places:
        shutil.copytree(kept, place)
        assert checkpoint_folder(tmp_path) == place
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    assert checkpoint_folder(tmp_path) == tmp_path


def test_a_model_is_found_after_a_death_between_two_renames(checkpoint):
    replaced = checkpoint.with_name("model.replaced")
    checkpoint.rename(replaced)
    checkpoint.with_name("model.unfinished").mkdir()
    assert dnc.load(checkpoint).classes == CLASSES
    assert dnc.load(checkpoint.parent).classes == CLASSES
    other = small_recognizer(seed=1)
    dnc.save(other, checkpoint)
    assert os.listdir(checkpoint.parent) == ["model"]
    with torch.no_grad():
        assert torch.equal(dnc.load(checkpoint).model(IMAGES), other.model(IMAGES))


def test_loading_changes_no_file(checkpoint):
    beside = checkpoint.with_name("model.replaced")
    beside.mkdir()
    (beside / "own").touch()
    before = sorted(checkpoint.parent.rglob("*"))
    dnc.load(checkpoint)
    assert sorted(checkpoint.parent.rglob("*")) == before


def test_a_save_that_fails_leaves_what_was_there(checkpoint, monkeypatch):
    def fail(*args):
        raise OSError("disk full")

    kept = (checkpoint / "model.safetensors").read_bytes()
    monkeypatch.setattr("dnc.training.checkpoint.write_tensors", fail)
    with pytest.raises(OSError, match="disk full"):
        dnc.save(small_recognizer(seed=1), checkpoint)
    assert (checkpoint / "model.safetensors").read_bytes() == kept
    assert os.listdir(checkpoint.parent) == ["model"]


def training_checkpoint(path, **state):
    made = small_recognizer()
    model = {"description": describe(made), "weights": portable_weights(made.model)}
    CheckpointFolders().save_checkpoint({"recognizer": model, **state}, path)
    return made


def test_a_training_checkpoint_is_a_model_and_the_state_of_its_run(tmp_path):
    state = {"epoch": 3, "optimizer": [{"state": {0: torch.ones(3)}}], "rate": float("inf")}
    made = training_checkpoint(tmp_path / "last", **state)
    back = CheckpointFolders().load_checkpoint(tmp_path / "last")
    assert torch.equal(back["optimizer"][0]["state"].pop(0), torch.ones(3))
    assert back == {"epoch": 3, "optimizer": [{"state": {}}], "rate": float("inf")}
    with torch.no_grad():
        assert torch.equal(dnc.load(tmp_path / "last").model(IMAGES), made.model(IMAGES))


def test_the_state_of_a_run_is_restored_after_a_death_between_two_renames(tmp_path):
    training_checkpoint(tmp_path / "last", epoch=3)
    (tmp_path / "last").rename(tmp_path / "last.replaced")
    assert CheckpointFolders().load_checkpoint(tmp_path / "last") == {"epoch": 3}
    assert os.listdir(tmp_path) == ["last"]


def test_a_portable_model_is_no_training_checkpoint(checkpoint):
    with pytest.raises(InvalidCheckpoint, match="training"):
        CheckpointFolders().load_checkpoint(checkpoint)


def test_removing_a_checkpoint_removes_nothing_else(tmp_path):
    training_checkpoint(tmp_path / "last", epoch=3)
    (tmp_path / "last" / "own.txt").touch()
    (tmp_path / "beside").touch()
    CheckpointFolders().remove_checkpoint(tmp_path / "last")
    assert os.listdir(tmp_path / "last") == ["own.txt"]
    (tmp_path / "last" / "own.txt").unlink()
    CheckpointFolders().remove_checkpoint(tmp_path / "last")
    CheckpointFolders().remove_checkpoint(tmp_path / "missing")
    assert os.listdir(tmp_path) == ["beside"]


def test_a_description_says_what_it_is_of(kept):
    described = read_description(kept)
    assert described.classes == CLASSES
    assert described.head.subcentroids == 2
    assert described.head.temperature == 0.07
    assert set(described.notes["versions"]) == {"dnc", "torch", "timm", "safetensors"}
    assert issubclass(InvalidCheckpoint, DNCError)


def test_a_folder_in_use_is_not_touched_by_who_reads_it(checkpoint):
    with whole_folder(checkpoint) as unfinished:
        shutil.copytree(checkpoint, unfinished, dirs_exist_ok=True)
        assert dnc.load(checkpoint).classes == CLASSES
    assert dnc.load(checkpoint).classes == CLASSES
