from pathlib import Path

import pytest
import timm
import torch
from torch import nn

from dnc.errors import InvalidModel
from dnc.models import backbone, convert
from tests.models.families import FAMILIES, NORMALISED_BEFORE_THE_LAST_LAYER, NOT_CONVERTED

CLASSES, IMAGES = 4, 4
DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"


def pre_logits(model, images, *, normalised):
    """What timm gives to its classifier, through the norm that belongs to the classifier if any."""
    features = model.forward_head(model.forward_features(images), pre_logits=True)
    norms = [
        module
        for name, module in model.named_modules()
        if name.startswith("head") and isinstance(module, nn.BatchNorm1d)
    ]
    assert bool(norms) == normalised
    for norm in norms:
        # A new norm changes next to nothing, so that its absence would not be seen.
        nn.init.uniform_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 1, 2)
    return sum(norm(features) for norm in norms) / len(norms) if norms else features


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.module)
def test_a_converted_network_keeps_its_features_and_learns_with_all_its_parameters(family):
    torch.manual_seed(0)
    model = family.network(CLASSES).eval()
    images = torch.randn(IMAGES, 3, family.size, family.size)
    normalised = family.module in NORMALISED_BEFORE_THE_LAST_LAYER
    converted = convert(model, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = pre_logits(model, images, normalised=normalised)
        torch.testing.assert_close(converted.features(images), expected, rtol=1e-5, atol=1e-6)

    def loss():
        torch.manual_seed(0)  # the same drop-out each time, where there is any
        return nn.functional.cross_entropy(converted(images), torch.arange(IMAGES))

    converted.train()
    before = loss()
    before.backward()
    assert [name for name, p in converted.named_parameters() if p.grad is None] == []
    # A step so short that the loss is to fall by one hundredth.
    squares = sum(p.grad.double().square().sum() for p in converted.parameters())
    rate = 0.01 * before.detach() / squares
    torch.optim.SGD(converted.parameters(), lr=rate.item()).step()
    with torch.no_grad():
        assert loss() < before


@pytest.mark.parametrize("name", NOT_CONVERTED.values())
def test_a_network_without_one_row_of_features_is_refused(name):
    with pytest.raises(InvalidModel, match="different dimensions"):
        convert(timm.create_model(name, num_classes=CLASSES))
    with pytest.raises(InvalidModel, match="different dimensions"):
        backbone(name)


def test_a_second_classifier_of_tokens_is_refused():
    with pytest.raises(InvalidModel, match="use_aux_head=False"), torch.device("meta"):
        backbone("volo_d1_224")


def test_every_family_of_timm_is_accounted_for():
    listed = {family.module for family in FAMILIES} | NOT_CONVERTED.keys()
    assert len(listed) == len(FAMILIES) + len(NOT_CONVERTED)
    assert listed <= set(timm.list_modules())
    assert all(family.name in timm.list_models(module=family.module) for family in FAMILIES)
    assert len(FAMILIES) >= 60


def test_the_document_names_every_family():
    text = DOCUMENT.read_text("utf-8")
    rows = [
        tuple(cell.strip().strip("`") for cell in line.split("|")[1:3])
        for line in text[text.index("## Families") :].splitlines()
        if line.startswith("| `")
    ]
    tested = [(family.module, family.name) for family in FAMILIES]
    assert sorted(rows) == sorted([*tested, *NOT_CONVERTED.items()])
