import subprocess
import sys

import pytest
import torch
from torch import nn

from dnc.centroids import SubCentroidHead
from dnc.errors import InvalidModel, InvalidSetting, NothingAbsorbed
from dnc.models import Classifier, HeadSettings, classifier, subcentroid_head

NAME = "resnet20-cifar"


def images(n=6):
    return torch.randn(n, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_scores_are_the_heads_scores_of_the_features():
    model, _ = classifier(NAME, 5, projection=12, centring="standard")
    model.eval()
    rows = model.backbone(images()) @ model.projection.weight.T + model.projection.bias
    rows = (rows - model.centring.running_mean) / (model.centring.running_var + 1e-5).sqrt()
    model.head.absorb(rows.detach(), torch.arange(6) % 5)
    torch.testing.assert_close(model.features(images()), rows)
    torch.testing.assert_close(model(images()), model.head(rows))
    assert (model.dim, model.classes, model.is_dnc) == (12, 5, True)


def test_the_decision_is_the_class_with_the_highest_score():
    model, _ = classifier(NAME, 3)
    model.head.absorb(model.eval().features(images()), torch.arange(6) % 3)
    decision = model.decide(images())
    assert torch.equal(decision.label, model(images()).argmax(dim=1))
    assert not decision.similarity.requires_grad


def test_before_anything_was_absorbed_there_is_no_decision():
    with pytest.raises(NothingAbsorbed):
        classifier(NAME, 3)[0].decide(images())


def test_a_linear_layer_has_no_cases_to_decide_by():
    model, _ = classifier(NAME, 3, kind="softmax")
    assert not model.is_dnc
    with pytest.raises(InvalidModel, match="no sub-centroids"):
        model.decide(images())


def test_the_two_kinds_differ_by_the_linear_layer_alone():
    torch.manual_seed(0)
    dnc, _ = classifier(NAME, 3, projection=8, centring="standard")
    softmax, _ = classifier(NAME, 3, kind="softmax", projection=8, centring="standard")
    names = [name for name, _ in dnc.named_parameters()]
    assert [name for name, _ in softmax.named_parameters()] == [*names, "head.weight", "head.bias"]
    assert not any(name.startswith(("head", "centring")) for name in names)


@pytest.mark.parametrize("kind", ["dnc", "softmax"])
def test_the_start_of_head_and_projection_comes_from_the_generator(kind):
    def start(seed):
        model, _ = classifier(NAME, 3, kind=kind, projection=8, generator=generator(seed))
        return {
            name: value
            for name, value in model.state_dict().items()
            if not name.startswith("backbone")
        }

    first, again, other = start(0), start(0), start(1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    changed = "head.centroids" if kind == "dnc" else "head.weight"
    for name in (changed, "projection.weight", "projection.bias"):
        assert not torch.equal(first[name], other[name])


def test_a_linear_head_starts_as_wide_as_torchs_own():
    model, _ = classifier(NAME, 1000, kind="softmax", generator=generator())
    bound = model.dim**-0.5
    assert bound * 0.99 < model.head.weight.abs().max() <= bound
    assert bound * 0.9 < model.head.bias.abs().max() <= bound


@pytest.mark.parametrize("kind", ["dnc", "softmax"])
@pytest.mark.parametrize("other_kind", ["dnc", "softmax", None])
def test_other_classes_keep_every_parameter_bit_for_bit(kind, other_kind):
    model, _ = classifier(NAME, 3, kind=kind, projection=8, centring="standard")
    model.features(images())  # moves the statistics of the centring
    before = {name: value.clone() for name, value in model.state_dict().items()}
    other = model.with_classes(7, settings=HeadSettings(subcentroids=2), kind=other_kind)
    after = other.state_dict()
    kept = [name for name in before if not name.startswith("head.")]
    assert kept == [name for name in after if not name.startswith("head.")]
    assert all(torch.equal(before[name], after[name]) for name in kept)
    assert other.is_dnc == ((other_kind or kind) == "dnc")
    assert other(images()).shape == (6, 7)
    assert model(images()).shape == (6, 3)
    if other.is_dnc:
        assert other.head.centroids.shape == (7, 2, 8)


def test_other_classes_keep_device_and_training_mode():
    with torch.device("meta"):
        network, _ = classifier(NAME, 3, kind="softmax")
    for training in (True, False):
        other = network.train(training).with_classes(4, kind="dnc")
        assert {value.device.type for value in other.state_dict().values()} == {"meta"}
        assert {module.training for module in other.modules()} == {training}


def test_a_training_step_with_every_part_leaves_no_parameter_without_gradient():
    model, _ = classifier(NAME, 3, projection=8, centring="standard")
    nn.functional.cross_entropy(model(images()), torch.arange(6) % 3).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


COMPILED = """
import torch
from dnc.models import classifier

for kind in ("dnc", "softmax"):
    model, _ = classifier("resnet20-cifar", 3, kind=kind)
    images = torch.randn(6, 3, 16, 16)
    if kind == "dnc":
        model.head.absorb(model.features(images).detach(), torch.arange(6) % 3)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for training in (False, True):
        model.train(training)
        torch.testing.assert_close(compiled(images), model(images))
"""


def test_compiled_in_one_graph_it_gives_the_same_scores():
    # In a process of its own, because the compiler cannot look through the check of shapes.
    subprocess.run([sys.executable, "-c", COMPILED], check=True)


def test_under_autocast_the_scores_of_subcentroids_are_exact():
    model, _ = classifier(NAME, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model(images())
    assert scores.dtype == torch.float32


def test_channels_last_images_give_the_same_scores():
    model, _ = classifier(NAME, 3)
    model.eval().head.absorb(model.features(images()).detach(), torch.arange(6) % 3)
    before = model(images())
    after = model.to(memory_format=torch.channels_last)(
        images().to(memory_format=torch.channels_last)
    )
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (nn.Identity(), r"shape \(6, 3, 16, 16\)"),
        (nn.ReLU(), "one row of features"),
        (nn.Flatten(), "dimension 768, but the head takes 5"),
    ],
)
def test_a_backbone_that_gives_no_rows_of_the_heads_dimension_is_refused(backbone, message):
    with pytest.raises(InvalidModel, match=message):
        Classifier(backbone, nn.Linear(5, 2))(images())


def test_a_backbone_that_gives_several_outputs_is_refused():
    class Several(nn.Module):
        def forward(self, images):
            return images, images

    with pytest.raises(InvalidModel, match="tuple"):
        Classifier(Several(), nn.Linear(5, 2))(images())


def test_a_projection_that_does_not_fit_the_head_is_refused():
    with pytest.raises(InvalidModel, match="dimension 4, but the head takes 5"):
        Classifier(nn.Flatten(), nn.Linear(5, 2), projection=nn.Linear(768, 4))


@pytest.mark.parametrize(
    "settings",
    [{"assign": "nearest"}, {"memory_dtype": "int8"}, {"assign": ["sinkhorn"]}],
    ids=str,
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(InvalidSetting, match="use one of"):
        HeadSettings(**settings)


@pytest.mark.parametrize("options", [{"kind": "svm"}, {"projection": 0}], ids=str)
def test_impossible_classifiers_are_refused(options):
    with pytest.raises(InvalidSetting):
        classifier(NAME, 3, **options)


def test_no_classes_are_refused_by_both_kinds():
    for kind in ("dnc", "softmax"):
        with pytest.raises(InvalidSetting):
            classifier(NAME, 0, kind=kind)


def test_settings_with_a_list_equal_those_with_a_tuple():
    assert HeadSettings(subcentroids=[1, 2]) == HeadSettings(subcentroids=(1, 2))
    assert hash(HeadSettings(subcentroids=[1, 2])) == hash(HeadSettings(subcentroids=(1, 2)))


def test_default_settings_are_the_heads_own():
    ours, own = subcentroid_head(8, 3), SubCentroidHead(8, 3)
    for name in ("momentum", "epsilon", "iterations", "temperature", "assign", "only_correct"):
        assert getattr(ours, name) == getattr(own, name)
    assert ours.centroids.shape == own.centroids.shape
    assert ours.memory is own.memory is None
    assert ours.reseed_after is own.reseed_after is None
