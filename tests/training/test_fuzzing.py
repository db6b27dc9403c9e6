"""Files that were changed at random: they are read, or refused by an error of dnc's own."""

import copy
import json
import random
import resource
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import yaml

import dnc
from dnc.errors import DNCError
from dnc.training.checkpoint import CheckpointFolders, describe, portable_weights
from dnc.training.recipe import Recipe
from dnc.training.recipe_text import shipped_recipes
from tests.training.models import small_recognizer

RECIPES, DESCRIPTIONS, HEADERS, BYTES, STATES = 6000, 2000, 1500, 600, 1000

# What a file that can execute anything would begin with; reading modules is not among it.
FORBIDDEN = {
    *("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.startfile", "subprocess.Popen"),
    *(
        "pickle.find_class",
        "socket.connect",
        "socket.getaddrinfo",
        "urllib.Request",
        "ctypes.dlopen",
    ),
}
watch = {"on": False, "seen": []}


def _note(event, arguments):
    if watch["on"] and event in FORBIDDEN:
        watch["seen"].append((event, str(arguments)[:200]))


sys.addaudithook(_note)


@contextmanager
def nothing_executed():
    """Sees that nothing is started, fetched or unpickled, and that memory hardly grows."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch.update(on=True, seen=[])
    try:
        yield
    finally:
        watch["on"] = False
    assert watch["seen"] == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def outcome(read, name):
    """Whether something could be read; any error but dnc's own is one of this test."""
    try:
        read()
    except DNCError:
        return False
    except Exception as error:
        raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
    return True


WORDS = [
    *(b"!!python/object/apply:os.system ['touch canary']", b"!!python/name:os.system", b"!!int ''"),
    *(b"*a", b"&a ", b"{", b"}", b"[", b"]", b": ", b"- ", b"\n", b"  ", b"? ", b"| ", b"> ", b"#"),
    *(b"1e999", b".nan", b"-.inf", b"0b_", b"0x", b"1:30:00.5", b"9" * 400, b"2024-01-01", b"~"),
    *(
        b'"\\ud800"',
        b'"\\x00"',
        b"\xff",
        b"\xc3",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"<<: ",
        b"=",
        b"%",
    ),
    *(b"---\n", b"...", b"null", b"true", b"'", b'"', b"!!binary x", b"!t ", b"\t", b"\0", b"\x85"),
]


def mutated_bytes(text, rng, *, most=4, begin=0, end=None):
    """Bytes with a few of them flipped, put in, taken out or repeated."""
    changed = bytearray(text)
    for _ in range(rng.randint(1, most)):
        place = rng.randrange(begin, max(begin + 1, min(end or len(changed), len(changed))))
        match rng.randrange(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << rng.randrange(8)
            case 1 if place < len(changed):
                changed[place] = rng.randrange(256)
            case 2:
                changed[place:place] = rng.choice(WORDS)
            case 3:
                del changed[place : place + rng.randint(1, 20)]
            case 4:
                part = changed[place : place + rng.randint(1, 40)]
                changed[place:place] = part * rng.choice((1, 1, 1, 10))
            case 5 if rng.random() < 0.3:
                del changed[place:]
    return bytes(changed)


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


VALUES = [
    *(None, True, False, 0, 1, -1, 2, 3, 32, 10**9, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.5),
    *(
        1e308,
        -1e-308,
        float("nan"),
        float("inf"),
        "",
        "a",
        "1",
        "1e-3",
        "nan",
        "\ud800",
        "\0",
        "x/y",
    ),
    *("hf-hub:timm/resnet18", "local-dir:.", "resnet20-cifar", "resnet18", "sinkhorn", "__class__"),
    *("os.system", "float16", "F64", "I32", "BOOL", "softmax", "x" * 500, [], {}, [[]], [None]),
    *([0], [1, 2, 3], [10**9] * 3, [0.1, 0.2, 0.3], ["a", "b", "c"], ["a"] * 50, {"a": {"b": 1}}),
    *(nested(30), nested(300), {"name": "resnet20-cifar", "size": 32}, {"tensor": "a"}),
]


def some_value(rng):
    return copy.deepcopy(rng.choice(VALUES))


def places(tree):
    """All containers of a tree with each of their keys."""
    found = []
    stack = [tree]
    while stack:
        inner = stack.pop()
        items = inner.items() if isinstance(inner, dict) else enumerate(inner)
        for key, value in items:
            found.append((inner, key))
            if isinstance(value, dict | list):
                stack.append(value)
    return found


def mutated_tree(tree, rng):
    """A tree with a few values replaced, taken out, put in or moved."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        found = places(tree)
        if not found:
            break
        inner, key = rng.choice(found)
        match rng.randrange(8):
            case 0:
                del inner[key]
            case 1 if isinstance(inner, dict):
                inner[rng.choice(("", "name", "epochs", str(key) + "s", "__init__"))] = inner[key]
            case 1:
                inner.insert(key, some_value(rng))
            case 2:
                other, at = rng.choice(found)
                inner[key] = copy.deepcopy(other[at])
            case 3 if type(inner[key]) in (int, float) and abs(inner[key]) < 10**15:
                inner[key] = inner[key] * rng.choice((-1, 0, 2, 10**9)) + rng.choice((0, 1, 0.5))
            case _:
                inner[key] = some_value(rng)
    return tree


def text_of(tree, rng):
    text = json.dumps(tree)
    if rng.random() < 0.1:
        text = text.replace("{", '{"classes": ["a"], "name": 3, ', rng.choice((1, 3)))
    return text.encode()


def test_changed_recipes_are_read_or_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(0)
    texts = [path.read_bytes() for path in shipped_recipes().values()]
    trees = [yaml.safe_load(text) for text in texts]
    whole = Recipe().to_yaml(whole=True).encode()
    path = tmp_path / "changed.yaml"
    accepted = 0
    with nothing_executed():
        for number in range(RECIPES):
            kind = number % 10
            if kind < 6:
                path.write_bytes(mutated_bytes(rng.choice(texts), rng))
            elif kind < 9:
                tree = mutated_tree(rng.choice(trees), rng)
                path.write_bytes(json.dumps(tree, ensure_ascii=rng.random() < 0.9).encode(
                    "utf-8", "surrogatepass"
                ))  # fmt: skip
            elif number % 100 == 9:
                path.write_bytes(mutated_bytes(whole, rng))
            else:
                path.write_bytes(rng.randbytes(rng.randrange(200)))
            accepted += outcome(lambda: Recipe.read(path), f"recipe {number}")
    assert RECIPES / 20 < accepted < RECIPES / 2
    assert [file.name for file in tmp_path.iterdir()] == ["changed.yaml"]


def test_changed_settings_are_taken_or_refused():
    rng = random.Random(1)
    names = [b"training.epochs", b"head.subcentroids", b"data.path", b"augment.scale", b"x", b""]
    base = Recipe()
    accepted = 0
    with nothing_executed():
        for number in range(500):
            value = mutated_bytes(b"[0.5, 1]", rng) if number % 2 else rng.choice(WORDS)
            setting = (rng.choice(names) + b"=" + value).decode("utf-8", "surrogateescape")
            accepted += outcome(lambda s=setting: base.with_settings([s]), repr(setting))
    assert 0 < accepted < 250


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The files of a training checkpoint."""
    folder = tmp_path_factory.mktemp("fuzzing") / "last"
    made = small_recognizer()
    model = {"description": describe(made), "weights": portable_weights(made.model)}
    state = {
        "epoch": 3,
        "loops": {"fit": {"done": [1, 2.5, None, True, float("inf")], "pair": (1, "a")}},
        "optimizer": [{"state": {0: {"step": made.model.head.steps}}}],
        "state_dict": {"centroids": made.model.head.centroids},
    }
    CheckpointFolders().save_checkpoint({"recognizer": model, **state}, folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    dnc.load(tmp_path)
    return tmp_path


def load_and_use(folder, rng):
    recognizer = dnc.load(folder)
    size = recognizer.preprocessing.resize
    if rng.random() < 0.1 and size <= 64:
        recognizer.predict(np.full((40, 30, 3), 99, dtype=np.uint8))


def test_changed_descriptions_are_loaded_or_refused(folder, kept):
    rng = random.Random(2)
    original = kept["model.json"]
    tree = json.loads(original)
    path = folder / "model.json"
    accepted = 0
    with nothing_executed():
        for number in range(DESCRIPTIONS):
            if number % 3:
                path.write_bytes(text_of(mutated_tree(tree, rng), rng))
            else:
                path.write_bytes(mutated_bytes(original, rng))
            accepted += outcome(lambda: load_and_use(folder, rng), f"description {number}")
    assert 10 < accepted < DESCRIPTIONS / 2
    assert {file.name for file in folder.iterdir()} == set(kept)


def divided(content):
    """Header and data of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header, data, rng):
    length = len(header)
    if rng.random() < 0.05:
        length = rng.choice((0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1))
    return length.to_bytes(8, "little") + header + data


def mutated_entry(header, rng):
    """A header with the shape, type, place or name of a tensor changed, also consistently."""
    header = dict(header)
    name = rng.choice(list(header))
    entry = dict(header[name])
    shape, (start, end) = list(entry.get("shape", [1])), entry.get("data_offsets", (0, 0))
    match rng.randrange(9):
        case 0:
            entry["shape"] = shape[::-1]
        case 1:
            entry["shape"] = [*shape, rng.choice((0, 1, -1, 2**31, 2**63, 10**30, 1.5, "1", None))]
        case 2:
            entry["dtype"] = rng.choice(("F64", "F16", "I32", "I64", "BOOL", "C64", "F4", "x", 3))
        case 3:
            entry["dtype"], entry["shape"] = "U8", [end - start]
        case 4:
            entry["data_offsets"] = [start + rng.choice((-1, 1, 10**9)), end]
        case 5:
            entry["data_offsets"] = [start, end + rng.choice((-1, 1, 10**9, 2**63))]
        case 6:
            del header[name]
            name = rng.choice((name + "x", "", "__metadata__", "head.centroids", "../x", "a" * 999))
        case 7:
            entry["shape"] = [0, *shape]
        case 8:
            entry[rng.choice(("shape", "dtype", "data_offsets", "more"))] = some_value(rng)
    header[name] = entry
    return header


def test_changed_headers_of_weights_are_loaded_or_refused(folder, kept):
    rng = random.Random(3)
    header, data = divided(kept["model.safetensors"])
    path = folder / "model.safetensors"
    accepted = 0
    with nothing_executed():
        for number in range(HEADERS):
            changed = mutated_entry(header, rng) if number % 3 else mutated_tree(header, rng)
            path.write_bytes(joined(json.dumps(changed).encode(), data, rng))
            accepted += outcome(lambda: load_and_use(folder, rng), f"header {number}")
    assert accepted < HEADERS / 10


def test_changed_bytes_of_weights_are_loaded_or_refused(folder, kept):
    rng = random.Random(4)
    content = kept["model.safetensors"]
    end_of_header = 8 + int.from_bytes(content[:8], "little")
    path = folder / "model.safetensors"
    accepted = 0
    with nothing_executed():
        for number in range(BYTES):
            if number % 6:
                changed = mutated_bytes(content, rng, end=end_of_header)
            elif number % 12:
                changed = bytearray(content)
                for place in rng.sample(range(end_of_header, len(content)), 200):
                    changed[place] = rng.randrange(256)
            else:
                changed = content[: rng.randrange(len(content))]
            path.write_bytes(changed)
            accepted += outcome(lambda: load_and_use(folder, rng), f"bytes {number}")
    assert 0 < accepted < BYTES / 3


def test_changed_states_are_loaded_or_refused(folder, kept):
    rng = random.Random(5)
    text, tensors = kept["training.json"], kept["training.safetensors"]
    tree = json.loads(text)
    header, data = divided(tensors)
    accepted = 0
    with nothing_executed():
        for number in range(STATES):
            changed, held = text, tensors
            match number % 4:
                case 0:
                    changed = mutated_bytes(text, rng)
                case 1:
                    held = joined(json.dumps(mutated_entry(header, rng)).encode(), data, rng)
                case _:
                    changed = text_of(mutated_tree(tree, rng), rng)
            (folder / "training.json").write_bytes(changed)
            (folder / "training.safetensors").write_bytes(held)
            accepted += outcome(
                lambda: CheckpointFolders().load_checkpoint(folder), f"state {number}"
            )
    assert STATES / 20 < accepted < STATES / 2


def test_ten_thousand_files_were_changed():
    assert RECIPES + DESCRIPTIONS + HEADERS + BYTES + STATES >= 10_000
