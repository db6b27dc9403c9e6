import json
import math
from collections import OrderedDict
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from dnc.errors import InvalidCheckpoint, InvalidInput
from dnc.training.state import (
    MOST_LEVELS,
    random_state,
    read_json,
    read_state,
    read_tensors,
    set_random_state,
    tensor_shapes,
    write_state,
    write_tensors,
)

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.uint8),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.complex64, torch.uint16),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
]


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    tensor = (torch.randn(shape, generator=generator) * 50).to(draw(st.sampled_from(DTYPES)))
    if draw(st.booleans()):
        tensor = tensor.movedim(0, -1) if tensor.ndim else tensor.expand(2)
    return tensor


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.characters(categories=["Cs"]),
    tensors(),
)
keys = st.one_of(
    st.integers(-5, 5), st.text(max_size=3), st.sampled_from(["map", "tensor", "1", "\ud800"])
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=12,
)


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        first, second = (tensor.contiguous().view(-1) for tensor in (one, other))
        return first.numel() == 0 or torch.equal(first.view(torch.uint8), second.view(torch.uint8))
    if isinstance(one, dict):
        return list(one) == list(other) and all(
            type(a) is type(b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        # The sign of what is no number means nothing, and is not kept.
        signs = (math.copysign(1, value) for value in (one, other))
        return (math.isnan(one) and math.isnan(other)) or (one == other and len(set(signs)) == 1)
    return bool(one == other)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


def returned(state, folder):
    write_state(state, folder, "some")
    return read_state(folder, "some")


@settings(max_examples=300, deadline=None)
@given(state=st.dictionaries(keys, trees, max_size=4))
def test_any_state_comes_back_equal_in_type_and_value(state, folder):
    assert same(returned(state, folder), state)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_of_number_keeps_its_bits(dtype, folder):
    values = (torch.arange(-6, 6).reshape(3, 4) * 7).to(dtype)
    state = {"values": values, "none": values[:0], "one": values[0, 0], "turned": values.T}
    assert same(returned(state, folder), state)


def test_extreme_numbers_keep_their_bits(folder):
    state = {
        "big": torch.tensor([2**63 - 1, -(2**63)]),
        "odd": torch.tensor([math.inf, -math.inf, math.nan, -0.0, 1e-45]),
        "plain": [math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 10**30],
    }
    assert same(returned(state, folder), state)


def test_tensors_that_share_memory_come_back_apart(folder):
    rows = torch.arange(6.0).reshape(2, 3)
    back = returned({"rows": rows, "same": rows, "first": rows[0], "wide": rows[:1].expand(4, 3)},
                    folder)  # fmt: skip
    assert all(torch.equal(back[name], rows) for name in ("rows", "same"))
    assert torch.equal(back["first"], rows[0])
    assert torch.equal(back["wide"], rows[0].expand(4, 3))
    assert back["rows"].data_ptr() != back["same"].data_ptr()


def test_conjugates_are_written_out(folder):
    values = torch.tensor([1 + 2j, 3 - 4j])
    back = returned({"conjugate": values.conj(), "negative": values.conj().imag}, folder)
    assert torch.equal(back["conjugate"], torch.tensor([1 - 2j, 3 + 4j]))
    assert torch.equal(back["negative"], torch.tensor([-2.0, 4.0]))


def test_places_that_read_alike_do_not_meet(folder):
    number = iter(range(10))
    make = lambda: torch.tensor(next(number))  # noqa: E731
    state = {1: make(), "1": make(), "a/b": make(), "a": {"b": make()}, "a/b'": make(), "": make()}
    assert same(returned(state, folder), state)


def test_parameters_and_ordered_mappings_come_back_plain(folder):
    weight = torch.nn.Parameter(torch.ones(2))
    back = returned(OrderedDict(weight=weight, shape=weight.shape), folder)
    assert type(back) is dict
    assert type(back["weight"]) is torch.Tensor
    assert torch.equal(back["weight"], torch.ones(2))
    assert back["shape"] == (2,)


def test_the_state_of_an_optimizer_comes_back(folder):
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert same(returned(optimizer.state_dict(), folder), optimizer.state_dict())


@pytest.mark.parametrize(
    "value",
    [
        *({1, 2}, b"bytes", 1j, Fraction(1, 2), object(), print, torch.float32, range(3)),
        *({(1, 2): 3}, {1.5: 3}, {True: 3}, {None: 3}, 10**5000),
        *(torch.ones(2).to_sparse(), torch.ones(1, dtype=torch.complex128)),
        torch.ones(2, device="meta"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_kept_is_refused_when_it_is_written(value, folder):
    with pytest.raises(InvalidInput):
        write_state({"deep": [value]}, folder, "refused")


def test_what_is_written_can_be_read_at_any_depth(folder):
    def nested(levels):
        value = 1
        for _ in range(levels):
            value = [value]
        return {"deep": value}

    assert returned(nested(MOST_LEVELS - 1), folder) == nested(MOST_LEVELS - 1)
    for levels in (MOST_LEVELS, 10 * MOST_LEVELS):
        with pytest.raises(InvalidInput, match="levels"):
            write_state(nested(levels), folder, "refused")
    endless = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="levels"):
        write_state({"endless": endless}, folder, "refused")


@pytest.mark.parametrize(
    "tree",
    [
        *([], 3, None, "words", {}, {"map": 3}, {"map": [3]}, {"map": [[1, 2, 3]]}),
        *({"map": [[1.5, 2]]}, {"map": [[None, 2]]}, {"map": [[[1], 2]]}, {"map": [[True, 1]]}),
        *({"map": [["a", {}]]}, {"map": [["a", {"tensor": "missing"}]]}, {"tensor": "there"}),
        *({"map": [["a", {"tensor": 3}]]}, {"map": [["a", {"float": "1"}]]}, {"map": [], "a": 1}),
        *({"map": [["a", {"tuple": 3}]]}, {"map": [["a", {"float": 3}]]}, {"tuple": []}),
        {"map": [["a", {"tensor": "there", "more": 1}]]},
    ],
    ids=str,
)
def test_entries_that_mean_nothing_are_refused(tree, folder):
    write_tensors({"there": torch.ones(1)}, folder / "wrong.safetensors")
    (folder / "wrong.json").write_text(json.dumps(tree))
    with pytest.raises(InvalidCheckpoint):
        read_state(folder, "wrong")


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"nul", b"NaN", b"[Infinity]", b"[-Infinity]", b"1e999", b"\xff", b"{'a': 1}"),
        *(b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"[1]" * 2, b"\x80\x04K\x01."),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_no_json_is_refused(text, folder):
    (folder / "wrong.json").write_bytes(text)
    with pytest.raises(InvalidCheckpoint):
        read_json(folder / "wrong.json")


def test_an_endless_file_is_refused(folder, monkeypatch):
    monkeypatch.setattr("dnc.training.state.MOST_JSON_BYTES", 10)
    (folder / "long.json").write_text("[" + "1, " * 10 + "1]")
    with pytest.raises(InvalidCheckpoint, match="more than 10 bytes"):
        read_json(folder / "long.json")


def test_missing_files_are_told(tmp_path):
    for read in (read_json, read_tensors, tensor_shapes):
        with pytest.raises(InvalidCheckpoint):
            read(tmp_path / "missing")
        with pytest.raises(InvalidCheckpoint):
            read(tmp_path)


def test_shapes_are_those_of_the_tensors(tmp_path):
    held = {"a": torch.ones(2, 3), "none": torch.ones(0, 5), "one": torch.tensor(1)}
    write_tensors(held, tmp_path / "some")
    shapes = {name: tuple(tensor.shape) for name, tensor in held.items()}
    assert tensor_shapes(tmp_path / "some") == shapes


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [2**33, 2**33], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]},
        {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]},
        {"dtype": "F128", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
    ],
    ids=str,
)
def test_tensors_that_cannot_be_are_refused(entry, tmp_path):
    header = json.dumps({"a": entry}).encode()
    data = b"\1\2\3\4"[: entry["data_offsets"][1]]
    (tmp_path / "wrong").write_bytes(len(header).to_bytes(8, "little") + header + data)
    with pytest.raises(InvalidCheckpoint):
        read_tensors(tmp_path / "wrong")


def test_a_file_of_tensors_has_the_rights_of_any_other(tmp_path):
    (tmp_path / "other").touch()
    write_tensors({"a": torch.ones(1)}, tmp_path / "some")
    assert (tmp_path / "some").stat().st_mode == (tmp_path / "other").stat().st_mode
    save_file({"a": torch.ones(1)}, tmp_path / "plain")
    assert torch.equal(read_tensors(tmp_path / "plain")["a"], torch.ones(1))


def test_random_numbers_go_on_where_they_were():
    cpu = torch.device("cpu")
    before = torch.get_rng_state()
    state = random_state(cpu)
    first = torch.rand(5)
    set_random_state(state, cpu)
    assert torch.equal(torch.rand(5), first)
    torch.set_rng_state(before)
