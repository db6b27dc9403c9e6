import os
import pickle

import pytest
import safetensors.torch
import timm
import torch

from dnc.errors import InvalidModel
from dnc.models import backbone, classifier

NAME = "test_resnet"


@pytest.fixture(scope="module")
def weights():
    torch.manual_seed(3)
    return timm.create_model(NAME).state_dict()


def expected(weights):
    return {name: value for name, value in weights.items() if not name.startswith("fc.")}


def assert_loaded(path, weights):
    network, info = backbone(NAME, pretrained=path)
    loaded = network.state_dict()
    assert loaded.keys() == expected(weights).keys()
    assert all(torch.equal(loaded[name], value) for name, value in expected(weights).items())
    return info


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt", ".bin"])
def test_weights_from_a_file_are_loaded_without_the_last_layer(tmp_path, weights, suffix):
    path = tmp_path / f"weights{suffix}"
    save = safetensors.torch.save_file if suffix == ".safetensors" else torch.save
    save(weights, path)
    assert assert_loaded(path, weights).left_out == ("fc.bias", "fc.weight")
    assert_loaded(str(path), weights)


@pytest.mark.parametrize(
    "nested",
    [
        lambda weights: {"state_dict": weights, "epoch": 3},
        lambda weights: {"model": {"state_dict": weights}},
        lambda weights: {f"module.{name}": value for name, value in weights.items()},
        lambda weights: {"model": {f"module._orig_mod.{n}": v for n, v in weights.items()}},
        lambda weights: {n: v for n, v in weights.items() if "num_batches_tracked" not in n},
        lambda weights: expected(weights),
    ],
    ids=["nested", "twice", "prefixed", "compiled", "old", "headless"],
)
def test_weights_are_found_where_training_scripts_put_them(tmp_path, weights, nested):
    path = tmp_path / "weights.pth"
    torch.save(nested(weights), path)
    assert_loaded(path, weights)


def test_a_file_of_other_classes_fits_as_well(tmp_path):
    torch.save(timm.create_model(NAME, num_classes=3).state_dict(), tmp_path / "weights.pth")
    model, _ = classifier(NAME, 5, kind="softmax", pretrained=tmp_path / "weights.pth")
    assert model.classes == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("conv1.0.weight"), "missing: conv1.0.weight"),
        (lambda w: w.update({"extra.weight": torch.ones(1)}), "not known: extra.weight"),
        (lambda w: w.update({"bn1.bias": torch.ones(2)}), r"of other shape: bn1.bias \(2,\)"),
        (lambda w: w.update({"fc2.weight": torch.ones(1)}), "not known: fc2.weight"),
    ],
    ids=["missing", "extra", "shape", "other-layer"],
)
def test_weights_that_do_not_fit_are_refused_by_name(tmp_path, weights, change, message):
    changed = dict(weights)
    change(changed)
    torch.save(changed, tmp_path / "weights.pth")
    with pytest.raises(InvalidModel, match=message):
        backbone(NAME, pretrained=tmp_path / "weights.pth")


def test_weights_of_another_network_are_refused(tmp_path):
    torch.save(timm.create_model("test_vit").state_dict(), tmp_path / "weights.pth")
    with pytest.raises(InvalidModel, match=r"do not fit ResNet.* and .* more"):
        backbone(NAME, pretrained=tmp_path / "weights.pth")


def test_weights_in_an_older_layout_that_timm_knows_are_renamed(tmp_path):
    torch.manual_seed(0)
    original = timm.create_model("test_convnext", num_classes=3)
    state = original.state_dict()
    # The layout of the first release of ConvNeXt: its own names for stem, stages and head.
    old = {}
    for name, value in state.items():
        name = name.replace("stem.", "downsample_layers.0.")
        for stage in range(1, 4):
            name = name.replace(f"stages.{stage}.downsample", f"downsample_layers.{stage}")
        name = name.replace(".blocks.", ".").replace("conv_dw", "dwconv")
        name = name.replace("mlp.fc1", "pwconv1").replace("mlp.fc2", "pwconv2")
        name = name.replace("head.fc.", "head.").replace("head.norm.", "norm.")
        old[name] = value
    torch.save({"model": old}, tmp_path / "weights.pth")
    network, _ = backbone("test_convnext", pretrained=tmp_path / "weights.pth")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        features = network.eval()(images)
        assert torch.equal(original.eval().head.fc(features), original(images))


def test_weights_at_another_image_size_are_resampled_by_timm(tmp_path):
    torch.save(timm.create_model("test_vit").state_dict(), tmp_path / "weights.pth")
    network, info = backbone("test_vit", pretrained=tmp_path / "weights.pth", image_size=64)
    assert info.input_size == 64
    assert network(torch.randn(1, 3, 64, 64)).shape == (1, info.dim)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".bin"])
@pytest.mark.parametrize(
    "content",
    [b"", b"not weights", b"PK\x03\x04" + bytes(60), b"\x80\x02}q\x00.", b"\xff" * 200],
    ids=["empty", "text", "zip", "pickle", "noise"],
)
def test_a_malformed_file_is_refused(tmp_path, suffix, content):
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(content)
    with pytest.raises(InvalidModel, match="weights"):
        backbone(NAME, pretrained=path)


def test_a_damaged_file_is_refused_wherever_it_is_damaged(tmp_path, weights):
    for save, suffix in ((torch.save, ".pth"), (safetensors.torch.save_file, ".safetensors")):
        path = tmp_path / f"weights{suffix}"
        save(weights, path)
        whole = path.read_bytes()
        for share in (0.0, 0.01, 0.5, 0.999):
            path.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(InvalidModel):
                backbone(NAME, pretrained=path)


class Malicious:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


@pytest.mark.parametrize("old_format", [False, True])
def test_nothing_in_a_file_is_executed(tmp_path, old_format):
    target = str(tmp_path / "executed")
    path = tmp_path / "weights.pth"
    torch.save(
        {"state_dict": Malicious(target)}, path, _use_new_zipfile_serialization=not old_format
    )
    with pytest.raises(InvalidModel, match="cannot be read as weights"):
        backbone(NAME, pretrained=path)
    path.write_bytes(pickle.dumps(Malicious(target)))
    with pytest.raises(InvalidModel, match="cannot be read as weights"):
        backbone(NAME, pretrained=path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "content",
    [[], {}, {"a": 1}, {1: torch.ones(1)}, torch.ones(2), {"state_dict": {}}, {"model": [1]}],
    ids=str,
)
def test_a_file_without_a_state_dict_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "weights.pth")
    with pytest.raises(InvalidModel, match="state dict"):
        backbone(NAME, pretrained=tmp_path / "weights.pth")


def test_a_file_that_is_missing_or_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InvalidModel, match="no such file"):
        backbone(NAME, pretrained=tmp_path / "weights.pth")
    (tmp_path / "weights.onnx").write_bytes(b"")
    with pytest.raises(InvalidModel, match=r"ends in one of \.safetensors"):
        backbone(NAME, pretrained=tmp_path / "weights.onnx")
