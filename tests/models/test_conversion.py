import copy

import pytest
import timm
import torch
import torchvision
from torch import nn

from dnc.errors import InvalidModel
from dnc.models import HeadSettings, convert
from dnc.models.last_layer import last_layers

# Network of torchvision, side of its smallest image, name of its last layer.
TORCHVISION = [
    ("resnet18", 32, "fc"),
    ("mobilenet_v2", 32, "classifier.1"),
    ("swin_t", 32, "head"),
    ("efficientnet_b0", 32, "classifier.1"),
    ("densenet121", 32, "classifier"),
    ("convnext_tiny", 32, "classifier.2"),
    ("vgg11", 32, "classifier.6"),
    ("alexnet", 64, "classifier.6"),
    ("squeezenet1_0", 64, "classifier.1"),
    ("shufflenet_v2_x0_5", 32, "fc"),
    ("mobilenet_v3_small", 32, "classifier.3"),
    ("mnasnet0_5", 32, "classifier.1"),
    ("regnet_y_400mf", 32, "fc"),
]


class Plain(nn.Module):
    def __init__(self, outputs=5):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), nn.BatchNorm1d(6), nn.ReLU())
        self.top = nn.Linear(6, outputs)

    def forward(self, images):
        return self.top(self.body(images))


def images(size=4, n=3):
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("name", "size", "layer"), TORCHVISION, ids=lambda value: str(value))
def test_torchvision_features_are_what_the_last_layer_took(name, size, layer):
    model = torchvision.models.get_model(name, weights=None, num_classes=7).eval()
    taken = []
    model.get_submodule(layer).register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0]))
    with torch.no_grad():
        model(images(size))
        converted = convert(model)
        features = converted.features(images(size))
    pooled = taken[0] if taken[0].ndim == 2 else taken[0].relu().mean(dim=(2, 3))
    assert list(last_layers(model)) == [layer]
    assert torch.equal(features, pooled)
    assert converted.classes == 7


def test_vision_transformer_of_torchvision_is_converted():
    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=16, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=8
    )
    nn.init.normal_(model.heads.head.weight)
    converted = convert(model.eval())
    with torch.no_grad():
        assert torch.equal(model.heads.head(converted.features(images(32))), model(images(32)))


@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
def test_auxiliary_classifiers_are_refused_and_without_them_all_is_well(name):
    build = getattr(torchvision.models, name)
    with pytest.raises(InvalidModel, match="aux_logits=False"):
        convert(build(weights=None, init_weights=False, num_classes=4))
    model = build(weights=None, init_weights=False, num_classes=4, aux_logits=False)
    assert list(last_layers(model)) == ["fc"]
    assert convert(model).classes == 4


def test_the_given_model_stays_as_it_is():
    model = Plain().eval()
    before, modules = model(images()), list(model.modules())
    convert(model)
    assert torch.equal(model(images()), before)
    assert list(model.modules()) == modules


def test_every_weight_but_the_last_layers_is_the_very_same():
    model = Plain()
    shared = {
        name: parameter
        for name, parameter in model.named_parameters()
        if not name.startswith("top.")
    }
    converted = dict(convert(model).backbone.named_parameters())
    assert converted.keys() == shared.keys()
    assert all(converted[name] is shared[name] for name in shared)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_precision_stays_and_subcentroids_are_never_coarse(dtype):
    converted = convert(Plain().to(dtype))
    assert {parameter.dtype for parameter in converted.parameters()} == {dtype}
    assert converted.head.centroids.dtype == torch.float32
    assert converted(images().to(dtype)).dtype in (torch.float32, torch.float64)


def test_device_stays():
    converted = convert(Plain().to("meta"))
    devices = {tensor.device.type for tensor in converted.state_dict().values()}
    assert devices == {"meta"}


def test_training_mode_stays_part_by_part():
    model = Plain().train()
    model.body[2].eval()
    converted = convert(model)
    assert converted.training
    assert converted.head.training
    assert not converted.backbone.body[2].training
    converted = convert(model.eval())
    assert not any(module.training for module in converted.modules())


def test_classes_are_those_of_the_last_layer_unless_given():
    assert convert(Plain(outputs=9)).classes == 9
    assert convert(Plain(outputs=9), 4).classes == 4


def test_settings_reach_the_head():
    settings = HeadSettings(
        subcentroids=(1, 2, 3, 1, 2),
        momentum=0.5,
        memory_rows=20,
        memory_dtype="bfloat16",
        batch_means=True,
        epsilon=0.1,
        iterations=5,
        temperature=0.2,
        assign="kmeans",
        only_correct=True,
        reseed_after=7,
    )
    head = convert(Plain(), head=settings).head
    assert head.valid.sum(dim=1).tolist() == [1, 2, 3, 1, 2]
    assert head.memory.rows.dtype == torch.bfloat16
    same = ("momentum", "batch_means", "epsilon", "iterations", "temperature", "only_correct")
    for name in same:
        assert getattr(head, name) == getattr(settings, name)
    assert head.assign.__name__ == "kmeans"
    assert head.reseed_after == 7


def test_the_last_layer_can_be_named():
    model = Plain()
    model.scale = nn.Parameter(torch.ones(()))
    model.after = nn.LayerNorm(5)
    with pytest.raises(InvalidModel, match=r"after \(LayerNorm\).*layer=.*top"):
        convert(model)
    assert convert(model, layer="top").dim == 6


@pytest.mark.parametrize(
    ("layer", "message"),
    [("tup", "did you mean top"), ("body.2", "BatchNorm1d"), ("", "has no layer")],
)
def test_a_wrong_name_of_the_last_layer_is_refused(layer, message):
    with pytest.raises(InvalidModel, match=message):
        convert(Plain(), layer=layer)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(3, 2), nn.LogSoftmax(dim=1)), "LogSoftmax"),
        (nn.Sequential(nn.Flatten()), "no layer with parameters"),
        (nn.Sequential(nn.Conv2d(3, 2, 3)), "Conv2d"),
        (nn.DataParallel(Plain()), "wrapper"),
        (torch.compile(Plain()), "wrapper"),
        (timm.create_model("test_resnet", num_classes=0), "num_classes=0"),
    ],
    ids=["squashed", "empty", "convolution", "parallel", "compiled", "headless"],
)
def test_a_model_without_a_usable_last_layer_is_refused(model, message):
    with pytest.raises(InvalidModel, match=message):
        convert(model)


def test_a_layer_that_was_never_run_is_refused():
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(4))
    with pytest.raises(InvalidModel, match="run the network once"):
        convert(model)


def test_a_layer_that_is_not_the_last_is_found_out_at_the_first_image():
    with pytest.raises(InvalidModel, match="really the last"):
        convert(nn.Sequential(nn.Flatten(), nn.Linear(48, 48), nn.Linear(48, 5)), layer="1")(
            images()
        )


def test_a_single_linear_layer_can_be_converted():
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 5))
    assert torch.equal(convert(model).features(images()), images().flatten(1))


def test_a_layer_with_two_names_goes_away_under_both():
    model = timm.create_model("test_resnet", num_classes=5)
    model.alias = model.fc
    names = [name for name, _ in convert(model).named_parameters()]
    assert not any("fc" in name or "alias" in name for name in names)


def test_a_copy_can_be_trained_apart():
    model = Plain()
    converted = convert(copy.deepcopy(model))
    assert not {id(p) for p in converted.parameters()} & {id(p) for p in model.parameters()}
