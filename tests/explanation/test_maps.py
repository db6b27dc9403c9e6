import pytest
import torch
from torch import nn

from dnc.centroids import SubCentroidHead, normalised
from dnc.explanation.maps import COVER, covering_map, seen_in
from dnc.models import Centring, Classifier, Whitening, classifier

EXACT = {
    "resnet18": 64,
    "resnet50": 64,
    "mobilenetv2_100": 64,
    "efficientnet-lite0": 64,
    "swin_tiny_patch4_window7_224": 224,
    "resnet20-cifar": 32,
}
CENTRINGS: tuple[Centring, ...] = ("none", "standard", "whitened")


def network(name: str, size: int, *, projection: int | None, centring: Centring) -> Classifier:
    torch.manual_seed(0)
    model, _ = classifier(name, 3, projection=projection, centring=centring, image_size=size)
    layer = model.centring
    if isinstance(layer, nn.BatchNorm1d):
        layer.running_mean.normal_()
        layer.running_var.uniform_(0.5, 2)
    elif isinstance(layer, Whitening):
        spread = torch.randn(len(layer.mean), 2 * len(layer.mean), dtype=torch.double)
        layer.set_(torch.randn(len(layer.mean)).double(), spread @ spread.T, 0.1)
    for module in model.modules():  # as after training: no statistics of an empty network
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    return model.eval()


@pytest.mark.parametrize("name", EXACT)
def test_a_map_adds_up_to_the_similarity(name):
    size = EXACT[name]
    model = network(name, size, projection=None, centring="none")
    images = torch.randn(2, 3, size, size)
    seen = seen_in(model, images)
    features = normalised(model.features(images)).detach()
    torch.testing.assert_close(seen.features, features, rtol=0, atol=1e-5)
    case = normalised(torch.randn(seen.features.shape[1]))
    of_places = seen.map_to(case)
    assert of_places is not None
    assert of_places.shape[1] * of_places.shape[2] > 1
    torch.testing.assert_close(
        of_places.sum(dim=(1, 2)).float(), features @ case, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("centring", CENTRINGS)
@pytest.mark.parametrize("projection", [None, 16])
def test_a_map_adds_up_behind_a_projection_and_any_centring(projection, centring):
    model = network("resnet20-cifar", 32, projection=projection, centring=centring)
    images = torch.randn(3, 3, 32, 32)
    seen = seen_in(model, images)
    case = normalised(torch.randn(seen.features.shape[1]))
    of_places = seen.map_to(case)
    assert of_places is not None
    expected = normalised(model.features(images)) @ case
    torch.testing.assert_close(
        of_places.sum(dim=(1, 2)).float(), expected.detach(), rtol=0, atol=1e-5
    )


def test_the_map_is_bright_where_the_network_sees_the_case():
    """A network that passes a colour on: the map is the place of that colour."""
    backbone = nn.Sequential(nn.Conv2d(3, 3, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with torch.no_grad():
        backbone[0].weight.copy_(torch.eye(3)[..., None, None])
    model = Classifier(backbone, SubCentroidHead(3, 2)).eval()
    image = torch.zeros(1, 3, 4, 4)
    image[0, 0, 1, 2] = 1.0  # red at one place
    image[0, 1, 3, 0] = 1.0  # green at another
    seen = seen_in(model, image)
    of_places = seen.map_to(torch.tensor([1.0, 0.0, 0.0]))
    assert of_places is not None
    expected = torch.zeros(4, 4, dtype=torch.double)
    expected[1, 2] = 2**-0.5
    torch.testing.assert_close(of_places[0], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "size"), [("test_vit", 64), ("mobilenetv3_small_100", 64)])
def test_a_network_without_a_mean_over_places_has_no_map(name, size):
    model = network(name, size, projection=None, centring="none")
    seen = seen_in(model, torch.randn(2, 3, size, size))
    assert seen.shares is None
    assert seen.map_to(torch.randn(seen.features.shape[1])) is None


def test_watching_a_network_leaves_it_as_it_was():
    model = network("resnet20-cifar", 32, projection=None, centring="none")
    seen_in(model, torch.randn(1, 3, 32, 32))
    assert not any(module._forward_hooks for module in model.modules())


def test_covering_what_counts_lowers_the_similarity_and_the_rest_does_not():
    model = Classifier(
        nn.Sequential(nn.Flatten(), nn.Linear(3 * 14 * 14, 4, bias=False)), SubCentroidHead(4, 2)
    ).eval()
    with torch.no_grad():
        weight = model.backbone[1].weight.view(4, 3, 14, 14)
        weight.zero_()
        weight[0, :, 2:4, 4:6] = 1.0  # the second row, the third column of 7 x 7 parts
        weight[1] = 0.01
    case = torch.tensor([1.0, 0.0, 0.0, 0.0])
    of_parts = covering_map(model, torch.ones(3, 14, 14), case)
    assert of_parts.shape == (COVER, COVER)
    assert int(of_parts.argmax()) == 1 * COVER + 2
    others = of_parts.flatten()[torch.arange(COVER * COVER) != COVER + 2]
    assert (others <= 1e-6).all()
