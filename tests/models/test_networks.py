import pytest
import timm
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from sklearn.datasets import load_sample_image
from torch import nn

from dnc.errors import InvalidModel, InvalidSetting
from dnc.models import backbone, classifier, describe, network_names
from dnc.models.efficientnet_lite import packaged_weights


@pytest.mark.parametrize("name", [*network_names(), "test_vit", "resnet10t.c3_in1k"])
def test_a_description_is_that_of_the_network_itself(name):
    assert describe(name).name == name
    if name not in ("resnet101", "resnet101-cifar", "swin-s", "swin-b"):
        network, info = backbone(name)
        assert info == describe(name)
        assert info.parameters == sum(p.numel() for p in network.parameters())
        with torch.no_grad():
            images = torch.randn(1, 3, info.input_size, info.input_size)
            assert network.eval()(images).shape == (1, info.dim)


@pytest.mark.parametrize("name", ["resnet18-cifar", "resnet50-cifar"])
def test_networks_for_small_images_keep_their_size_before_the_first_block(name):
    network, info = backbone(name)
    sizes = []
    network.layer1.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].shape[-1]))
    network.eval()(torch.randn(1, 3, 32, 32))
    assert sizes == [info.input_size] == [32]


def test_preprocessing_is_what_timm_says():
    network = timm.create_model("mobilenetv2_100")
    info = describe("mobilenet-v2")
    assert info.mean == network.pretrained_cfg["mean"]
    assert info.std == network.pretrained_cfg["std"]
    assert info.interpolation == network.pretrained_cfg["interpolation"]
    assert (info.input_size, info.resize) == (224, 256)


def test_an_unknown_name_is_refused_with_the_nearest_ones():
    with pytest.raises(InvalidModel, match=r"did you mean .*swin-t"):
        backbone("swin-tt")
    with pytest.raises(InvalidModel, match=r"did you mean .*resnet50"):
        describe("ResNet50")
    for name in ("resnet50.no_such_tag", "hf-hub:timm/resnet18", "../resnet18", ""):
        with pytest.raises(InvalidModel, match="No network is called"):
            backbone(name)


def test_the_size_of_images_reaches_networks_that_depend_on_it():
    network, info = backbone("swin-t", image_size=64)
    assert (info.input_size, info.resize) == (64, round(64 / 0.9))
    assert network(torch.randn(2, 3, 64, 64)).shape == (2, 768)
    assert describe("resnet18", image_size=128).input_size == 128


def test_stochastic_depth_reaches_the_network():
    images = torch.randn(2, 3, 32, 32)
    for name, size in (("resnet18-cifar", None), ("test_vit", 32)):
        network, _ = backbone(name, drop_path=0.5, image_size=size)
        rates = [m.drop_prob for m in network.modules() if type(m).__name__ == "DropPath"]
        assert max(rates) == 0.5
        assert network(images).shape[0] == 2


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("resnet20-cifar", {"drop_path": 0.1}, InvalidSetting),
        ("vgg11", {"drop_path": 0.1}, InvalidModel),
        ("resnet18", {"drop_path": 1.0}, InvalidSetting),
        ("resnet18", {"drop_path": -0.1}, InvalidSetting),
        ("resnet18", {"image_size": 0}, InvalidSetting),
        ("resnet18-cifar", {"pretrained": True}, InvalidModel),
        ("resnet20-cifar", {"pretrained": True}, InvalidModel),
        ("gmixer_12_224", {"pretrained": True}, InvalidModel),
    ],
    ids=str,
)
def test_what_a_network_does_not_offer_is_refused(name, options, error):
    with pytest.raises(error):
        backbone(name, **options)


def test_without_a_connection_the_error_says_what_to_do(monkeypatch):
    def unreachable(*_, **__):
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(InvalidModel, match=r"--weights FILE.*efficientnet-lite0"):
        backbone("resnet18", pretrained=True)


def test_every_packaged_weight_is_used():
    torch.manual_seed(0)
    network, info = backbone("efficientnet-lite0", pretrained=True)
    weights = packaged_weights()
    assert info.left_out == ("classifier.bias", "classifier.weight")
    loaded = network.state_dict()
    assert {*loaded, *info.left_out} == weights.keys()
    assert all(torch.equal(loaded[name], weights[name]) for name in loaded)
    assert info.mean == pytest.approx((127 / 255,) * 3)
    assert info.std == pytest.approx((128 / 255,) * 3)


def test_packaged_weights_recognise_a_palace():
    photo = torch.tensor(load_sample_image("china.jpg")).permute(2, 0, 1)[None].float()
    photo = photo[..., (640 - 427) // 2 :][..., :427]
    photo = nn.functional.interpolate(photo, size=(224, 224), mode="bicubic", antialias=True)
    network, info = backbone("efficientnet-lite0", pretrained=True)
    weights = packaged_weights()
    features = network.eval()((photo / 255 - info.mean[0]) / info.std[0])
    scores = features @ weights["classifier.weight"].T + weights["classifier.bias"]
    assert scores.argmax() == 698  # "palace" among the classes of ImageNet


def test_a_classifier_has_the_networks_features():
    model, info = classifier("efficientnet-lite0", 4, pretrained=True)
    images = torch.randn(1, 3, 64, 64)
    network, _ = backbone("efficientnet-lite0", pretrained=True)
    model.eval()
    network.eval()
    with torch.no_grad():
        assert torch.equal(model.features(images), network(images))
    assert model.dim == info.dim == 1280
