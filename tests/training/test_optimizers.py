import math

import pytest
import timm
import torch
from timm.optim import param_groups_weight_decay
from torch import nn

from dnc.errors import InvalidModel, InvalidSetting
from dnc.training.optimizers import optimizer, parameter_groups


class WideBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 3))
        self.bias = nn.Parameter(torch.ones(2, 3))
        self.scale = nn.Parameter(torch.ones(()))


class NamesTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(4, 4))
        self.weight = nn.Parameter(torch.ones(4, 4))

    def no_weight_decay(self):
        return {"table"}


def network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2), WideBias()
    )


def decays(model, **settings):
    """Weight decay of each parameter by its name."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        names[id(parameter)]: group["weight_decay"]
        for group in parameter_groups(model, **settings)
        for parameter in group["params"]
    }


def test_biases_and_parameters_of_one_dimension_have_no_decay():
    decayed = {"0.weight", "3.weight", "4.weight"}
    assert decays(network(), weight_decay=0.1) == {
        name: 0.1 if name in decayed else 0.0 for name, _ in network().named_parameters()
    }


def test_all_decay_if_asked():
    got = decays(network(), weight_decay=0.1, decay_all=True)
    assert got == {name: 0.1 for name, _ in network().named_parameters()}


def test_parameters_that_a_part_of_the_network_names_have_no_decay():
    assert decays(nn.Sequential(NamesTable()), weight_decay=0.1) == {"0.table": 0, "0.weight": 0.1}
    assert decays(NamesTable(), weight_decay=0.1) == {"table": 0, "weight": 0.1}


@pytest.mark.parametrize(
    ("name", "depth"),
    [("vit_tiny_patch16_224", {"depth": 1}), ("swin_tiny_patch4_window7_224", {"depths": [1] * 4})],
)
def test_decay_of_a_transformer_is_that_of_timm(name, depth):
    network = timm.create_model(name, **depth)
    named = network.no_weight_decay()
    theirs = param_groups_weight_decay(network, 0.1, no_weight_decay_list=named)
    expected = {id(one): group["weight_decay"] for group in theirs for one in group["params"]}
    ours = parameter_groups(nn.Sequential(network), weight_decay=0.1)
    assert {id(one): group["weight_decay"] for group in ours for one in group["params"]} == expected


def test_frozen_parameters_are_left_out():
    model = network()
    model[0].requires_grad_(False)
    model[1].bias.requires_grad_(False)
    got = decays(model, weight_decay=0.1)
    assert set(got) == {
        name for name, parameter in model.named_parameters() if parameter.requires_grad
    }


def test_a_parameter_that_is_used_twice_is_in_one_group_once():
    shared = nn.Linear(3, 3)
    groups = parameter_groups(nn.Sequential(shared, nn.ReLU(), shared), weight_decay=0.1)
    assert sorted(len(group["params"]) for group in groups) == [1, 1]


def test_there_is_no_empty_group():
    assert len(parameter_groups(nn.Linear(2, 2, bias=False), weight_decay=0.1)) == 1
    assert len(parameter_groups(nn.BatchNorm1d(2), weight_decay=0.1)) == 1
    assert parameter_groups(nn.ReLU(), weight_decay=0.1) == []


def test_sgd_and_adamw_take_their_settings():
    groups = parameter_groups(network(), weight_decay=0.1)
    sgd = optimizer(groups, name="sgd", learning_rate=0.5, momentum=0.8, nesterov=True)
    assert type(sgd) is torch.optim.SGD
    assert [group["weight_decay"] for group in sgd.param_groups] == [0.1, 0.0]
    for group in sgd.param_groups:
        assert (group["lr"], group["momentum"], group["nesterov"]) == (0.5, 0.8, True)

    groups = parameter_groups(network(), weight_decay=0.1)
    adamw = optimizer(groups, name="adamw", learning_rate=0.5, betas=(0.8, 0.95))
    assert type(adamw) is torch.optim.AdamW
    assert [group["weight_decay"] for group in adamw.param_groups] == [0.1, 0.0]
    for group in adamw.param_groups:
        assert (group["lr"], group["betas"]) == (0.5, (0.8, 0.95))


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_without_a_gradient_only_decayed_parameters_shrink(name):
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer(parameter_groups(model, weight_decay=0.1), name=name, learning_rate=0.5).step()
    torch.testing.assert_close(model[0].weight.detach(), before["0.weight"] * 0.95)
    assert all(
        torch.equal(value, before[key])
        for key, value in model.state_dict().items()
        if key != "0.weight"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "adam"}, "name is adam; it must be one of sgd, adamw"),
        ({"learning_rate": 0.0}, "learning_rate is 0"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"momentum": 1.0}, "momentum is 1"),
        ({"momentum": 0.0, "nesterov": True}, "above 0 with nesterov"),
        ({"betas": (0.9, 1.0)}, "betas is"),
    ],
)
def test_settings_out_of_range_are_refused(change, message):
    groups = parameter_groups(network(), weight_decay=0.1)
    with pytest.raises(InvalidSetting, match=message):
        optimizer(groups, **{"name": "sgd", "learning_rate": 0.1, **change})


@pytest.mark.parametrize("decay", [-0.1, math.nan, math.inf])
def test_decay_out_of_range_is_refused(decay):
    with pytest.raises(InvalidSetting, match="weight_decay is"):
        parameter_groups(network(), weight_decay=decay)


def test_a_network_without_parameters_to_train_is_refused():
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(InvalidModel, match="no parameter to train"):
        optimizer(parameter_groups(frozen, weight_decay=0.1), name="sgd", learning_rate=0.1)
