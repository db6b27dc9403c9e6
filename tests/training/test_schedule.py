import math
import typing
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.lr_scheduler import CosineAnnealingLR, MultiStepLR, PolynomialLR

from dnc.errors import InvalidSetting
from dnc.training.schedule import Kind, learning_rate_factor

KINDS = typing.get_args(Kind)
SHARES = st.floats(0, 1)


@st.composite
def schedules(draw):
    steps = draw(st.integers(1, 60))
    return {
        "steps": steps,
        "warmup_steps": draw(st.integers(0, steps)),
        "kind": draw(st.sampled_from(KINDS)),
        "milestones": draw(st.lists(SHARES, min_size=1, max_size=4)),
        "gamma": draw(st.floats(0.01, 1)),
        "power": draw(st.floats(0.1, 5)),
        "final": draw(SHARES),
    }


def factors(**chosen):
    return [learning_rate_factor(step, **chosen) for step in range(chosen["steps"] + 1)]


def of_torch(scheduler, steps, **options):
    made = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = scheduler(made, **options)
    rates = []
    for _ in range(steps + 1):
        rates.append(made.param_groups[0]["lr"])
        made.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("final", [0.0, 0.05])
def test_cosine_without_warm_up_is_that_of_torch(final):
    expected = of_torch(CosineAnnealingLR, 60, T_max=60, eta_min=final)
    got = factors(steps=60, warmup_steps=0, kind="cosine", final=final)
    assert got == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_polynomial_without_warm_up_is_that_of_torch(power):
    expected = of_torch(PolynomialLR, 60, total_iters=60, power=power)
    got = factors(steps=60, warmup_steps=0, kind="polynomial", power=power)
    assert got == pytest.approx(expected, abs=1e-12)


def test_steps_without_warm_up_are_those_of_torch():
    expected = of_torch(MultiStepLR, 100, milestones=[7, 55, 90], gamma=0.2)
    got = factors(
        steps=100, warmup_steps=0, kind="step", milestones=[0.07, 0.55, 0.9], gamma=0.2, final=0.0
    )
    assert got == pytest.approx(expected, rel=1e-9)


def test_milestones_are_shares_of_the_whole_run_with_its_warm_up():
    got = factors(steps=100, warmup_steps=20, kind="step", milestones=[0.5])
    assert got[20:50] == [1.0] * 30
    assert got[50:] == pytest.approx([0.1] * 51)


def test_constant_stays():
    assert factors(steps=9, warmup_steps=0, kind="constant") == [1.0] * 10


@settings(deadline=None)
@given(schedules())
def test_every_factor_is_between_zero_and_one_and_the_first_step_moves(chosen):
    got = factors(**chosen)
    assert all(0 <= factor <= 1 for factor in got)
    assert got[0] > 0


@settings(deadline=None)
@given(schedules())
def test_the_warm_up_is_linear_and_meets_the_schedule(chosen):
    got, warmup = factors(**chosen), chosen["warmup_steps"]
    rises = [later - earlier for earlier, later in pairwise(got)]
    # The last rise ends in the schedule's first value; a run that is all warm-up has no such step.
    within = rises[: warmup if warmup < chosen["steps"] else max(warmup - 1, 0)]
    assert within == pytest.approx([got[0]] * len(within), abs=1e-12)


@settings(deadline=None)
@given(schedules())
def test_after_the_warm_up_the_factor_never_grows(chosen):
    after = factors(**chosen)[chosen["warmup_steps"] :]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(after))


@settings(deadline=None)
@given(schedules(), st.integers(1, 1000))
def test_the_run_ends_at_the_final_factor_and_stays_there(chosen, beyond):
    end = learning_rate_factor(chosen["steps"], **chosen)
    if chosen["kind"] in ("polynomial", "cosine"):
        assert end == pytest.approx(chosen["final"], abs=1e-12)
    elif chosen["kind"] == "step":
        assert end == max(chosen["gamma"] ** len(chosen["milestones"]), chosen["final"])
    assert learning_rate_factor(chosen["steps"] + beyond, **chosen) == end


GOOD = {"steps": 10, "warmup_steps": 2, "kind": "cosine"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0, "warmup_steps": 0}, "steps is 0"),
        ({"warmup_steps": 11}, "warmup_steps is 11; it must be 0 to 10"),
        ({"warmup_steps": -1}, "warmup_steps is -1"),
        ({"kind": "linear"}, "kind is linear; it must be one of constant, step"),
        ({"kind": "step"}, "milestones is empty"),
        ({"milestones": [0.5, 30]}, "shares of the run"),
        ({"gamma": 0}, "gamma is 0"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"power": 0}, "power is 0"),
        ({"power": math.inf}, "power is inf"),
        ({"final": 1.1}, "final is 1.1"),
        ({"final": math.nan}, "final is nan"),
    ],
)
def test_settings_out_of_range_are_refused(change, message):
    with pytest.raises(InvalidSetting, match=message):
        learning_rate_factor(3, **{**GOOD, **change})


def test_steps_before_the_run_are_refused():
    with pytest.raises(InvalidSetting, match="step is -1"):
        learning_rate_factor(-1, **GOOD)
