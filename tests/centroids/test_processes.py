import copy
import math
from functools import cache

import pytest
import torch
from torch import distributed, nn

from dnc import SubCentroidHead
from dnc.centroids import Memory
from dnc.centroids.exchange import World
from dnc.centroids.processes import exempt_from_broadcast
from dnc.errors import InvalidSetting
from tests.centroids import worlds
from tests.centroids.worlds import RESUMED, SCENARIOS, STEPS

SIZES = (2, 4)


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """What each process did, by the number of processes; the second world resumes the first."""
    folders = {size: tmp_path_factory.mktemp(f"world-of-{size}") for size in SIZES}
    return {
        2: worlds.lived(2, folders[2]),
        4: worlds.lived(4, folders[4], earlier=folders[2] / "0.pt"),
    }


@pytest.fixture
def group_of_one(tmp_path):
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


def assert_same(ours, expected):
    for name, value in expected.items():
        if value.is_floating_point():
            torch.testing.assert_close(ours[name], value, rtol=0, atol=1e-6, msg=name)
        else:
            assert torch.equal(ours[name], value), name


def of_one_process(scenario, steps=STEPS):
    return scenario.go(scenario.new_head(), steps)


@cache
def whole_state_by_one_process(name):
    return worlds.whole_state(of_one_process(SCENARIOS[name]))


def shared(state):
    return {name: value for name, value in state.items() if "memory." not in name}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_several_processes_do_what_one_does_with_all_rows(lives, name, size):
    expected = shared(whole_state_by_one_process(name))
    assert expected["occupied"].any()
    for done in lives[size]:
        assert_same(done[name], expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "name", [name for name in SCENARIOS if "memory_rows" in SCENARIOS[name].head]
)
def test_the_whole_memory_is_that_of_one_process_and_only_the_first_has_it(lives, name, size):
    expected = whole_state_by_one_process(name)
    assert_same(lives[size][0][name], expected)
    for done in lives[size][1:]:
        assert not any("memory" in key for key in done[name])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["memory", "more processes than classes", "one class"])
def test_the_memory_is_divided_and_no_class_is_in_it_twice(lives, name, size):
    whole = SCENARIOS[name].new_head().memory
    kept = [done[name]["kept"] for done in lives[size]]
    assert [c for share in kept for c in share] == list(range(whole.classes))
    assert max(map(len, kept)) - min(map(len, kept)) <= 1
    stored = [done[name]["stored"] for done in lives[size]]
    assert stored == [len(share) * whole.slots for share in kept]
    assert sum(stored) == whole.rows.shape[0] * whole.slots


@pytest.mark.parametrize("size", SIZES)
def test_the_mean_age_is_that_of_the_own_share(lives, size):
    memory = of_one_process(SCENARIOS["memory"]).memory
    for done in lives[size]:
        kept = done["memory"]["kept"]
        age = (len(STEPS) - memory.written_at[kept])[memory.filled[kept]]
        assert done["memory"]["age"] == pytest.approx(age.double().mean().item())
    ages = [done["one class"]["age"] for done in lives[size]]
    assert [math.isnan(age) for age in ages] == [True] * (size - 1) + [False]


@pytest.mark.parametrize("size", SIZES)
def test_random_starts_that_differ_agree_after_the_first_batch(lives, size):
    first, *others = (done["different starts"] for done in lives[size])
    for other in others:
        assert_same(other, first)


@pytest.mark.parametrize("size", SIZES)
def test_all_go_on_with_what_the_first_one_has(lives, size):
    for done in lives[size]:
        found = done["as the first"]
        assert not found["floats"].any()
        assert torch.equal(found["transposed"], torch.arange(6.0).view(2, 3).mT)
        assert found["flags"].tolist() == [True, False]
        assert found["number"] == 0


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (2, "share reloaded"),
        (4, "share reloaded"),
        (4, "resumed"),
        (4, "resumed, divided first"),
    ],
)
def test_a_run_goes_on_identically_with_another_number_of_processes(lives, size, name):
    expected = worlds.whole_state(of_one_process(RESUMED))
    assert_same(lives[size][0][name], expected)
    for done in lives[size]:
        assert_same(done[name], shared(expected))


@pytest.mark.parametrize("size", SIZES)
def test_one_process_goes_on_with_what_several_have_left(lives, size):
    head = RESUMED.new_head(seed=3)
    head.load_state_dict(lives[size][0]["first half"])
    RESUMED.go(head, range(10, 20))
    assert_same(head.state_dict(), of_one_process(RESUMED).state_dict())


@pytest.mark.parametrize("size", SIZES)
def test_rows_that_one_process_refuses_are_refused_by_all_and_change_nothing(lives, size):
    expected = shared(of_one_process(RESUMED, range(8)).state_dict())
    for rank, done in enumerate(lives[size]):
        raised = done["refusals"]["raised"]
        own = [rank == size - 1, rank == 0, True]
        kinds = ["NonFiniteFeatures", "InvalidLabels", "InvalidLabels"]
        ranks = [size - 1, 0, None]
        for step in range(3):
            for message in raised[2 * step : 2 * step + 2]:
                if own[step]:
                    assert message.startswith(kinds[step])
                else:
                    assert message.startswith(f"PeerFailed: Process {ranks[step]} of 0 to")
        assert done["refusals"]["unchanged"]
        assert_same(done["refusals"], expected)


@pytest.mark.parametrize("size", SIZES)
def test_the_death_of_a_process_ends_the_others_with_an_error(lives, size):
    for done in lives[size][:-1]:
        assert done["lost"]["raised"].startswith("PeerFailed: The processes can no longer reach")
        assert done["lost"]["steps"] < 10


@pytest.mark.parametrize("size", SIZES)
def test_training_under_ddp_is_training_in_one_process_with_the_whole_batch(lives, size):
    network = worlds.trained()
    expected = dict(network.features.state_dict()) | worlds.whole_state(network.head)
    assert_same(lives[size][0]["network"], expected)
    for done in lives[size]:
        assert_same(done["network"], shared(expected))


def test_a_group_of_one_process_is_one_process(group_of_one):
    head, expected = RESUMED.new_head(), of_one_process(RESUMED)
    RESUMED.go(head, STEPS)
    assert_same(head.state_dict(), expected.state_dict())
    assert_same(head.whole_memory(), expected.memory.state_dict())
    assert SCENARIOS["plain"].new_head().whole_memory() is None


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.parametrize("classes", [1, 2, 7, 10])
def test_shares_are_consecutive_balanced_and_complete(classes, size):
    shares = [World(rank, size).share(classes) for rank in range(size)]
    assert [c for share in shares for c in share] == list(range(classes))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) == World(0, size).largest_share(classes)


def divided(memory, share):
    part = copy.deepcopy(memory)
    part.keep_only(share)
    return part


def test_dividing_keeps_what_the_share_held_and_twice_is_once():
    memory = of_one_process(SCENARIOS["memory"]).memory
    part = divided(memory, range(1, 3))
    part.keep_only(range(1, 3))
    for name, value in memory.state_dict().items():
        assert torch.equal(part.state_dict()[name], value[1:3])
        assert part.state_dict()[name].untyped_storage().nbytes() < value.untyped_storage().nbytes()


def test_a_divided_memory_refuses_another_share():
    memory = of_one_process(SCENARIOS["memory"]).memory
    with pytest.raises(InvalidSetting, match=r"holds classes 1 to 2 of 5, .* to have 0 to 4"):
        divided(memory, range(1, 3)).keep_only(range(5))
    with pytest.raises(InvalidSetting, match=r"holds classes none of 5, .* to have 2 to 3"):
        divided(memory, range(0, 0)).keep_only(range(2, 4))


def test_one_process_cannot_go_on_with_the_share_that_several_have_left_it():
    head = of_one_process(SCENARIOS["memory"])
    head.memory.keep_only(range(2))
    before = copy.deepcopy(head.state_dict())
    for goes_on in (lambda: SCENARIOS["memory"].go(head, [3]), head.recluster, head.whole_memory):
        with pytest.raises(InvalidSetting, match="holds classes 0 to 1 of 5"):
            goes_on()
    assert_same(head.state_dict(), before)


def test_a_divided_memory_takes_its_share_of_a_whole_state_and_no_other_shape():
    memory = of_one_process(SCENARIOS["memory"]).memory
    whole = memory.state_dict()
    part = divided(Memory(52, worlds.DIM, 5), range(3, 5))
    part.load_state_dict(whole)
    assert_same(part.state_dict(), divided(memory, range(3, 5)).state_dict())
    assert len(whole["rows"]) == 5
    with pytest.raises(RuntimeError, match="size mismatch"):
        part.load_state_dict({name: value[:3] for name, value in whole.items()})
    with pytest.raises(RuntimeError, match="size mismatch"):
        memory.load_state_dict(part.state_dict())


def test_every_buffer_of_every_head_is_exempt_and_earlier_exemptions_stay():
    model = nn.ModuleDict(
        {
            "network": nn.BatchNorm1d(8),
            "one": nn.Sequential(SubCentroidHead(8, 3, memory_rows=30)),
            "other": SubCentroidHead(8, 3),
        }
    )
    model["again"] = model["other"]
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
        model, ["network.weight"]
    )
    exempt_from_broadcast(model)
    exempt_from_broadcast(model)
    exempt = model._ddp_params_and_buffers_to_ignore
    buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
    assert set(exempt) == {name for name in buffers if "network" not in name} | {"network.weight"}
    assert len(exempt) == len(set(exempt))
    assert {"one.0.memory.rows", "one.0.centroids", "other.steps", "again.steps"} <= set(exempt)


def test_a_head_by_itself_is_exempt_too():
    head = SubCentroidHead(8, 3)
    exempt_from_broadcast(head)
    assert set(head._ddp_params_and_buffers_to_ignore) == {name for name, _ in head.named_buffers()}
