import itertools

import pytest
import torch
from torch import nn
from torch.nn.functional import interpolate

from dnc.centroids import normalised
from dnc.errors import InvalidModel, InvalidSetting
from dnc.models import (
    DecoderSettings,
    HeadSettings,
    Segmenter,
    Views,
    classifier,
    segmenter,
    viewed_features,
)
from dnc.models.decoders import ARCHITECTURES
from dnc.models.segmentation import IGNORED

# A network of each kind: convolutions with and without a layer behind the last block, windows,
# tokens; with the strides that it can have.
NETWORKS = {
    "test_resnet": (None, 8, 16),
    "test_efficientnet": (None, 8, 16),
    "test_convnext": (None,),
    "swin_s3_tiny_224": (None,),
    "test_vit": (None,),
}
CASES = [
    (name, stride, architecture)
    for name, strides in NETWORKS.items()
    for stride, architecture in itertools.product(strides, ARCHITECTURES)
    if not (name == "test_vit" and architecture == "upernet")
]


def small(
    name="test_resnet", *, architecture="fcn", stride=8, classes=4, norm="group", **settings
) -> Segmenter:
    """A segmenter that is made the same each time."""
    torch.manual_seed(0)
    decoder = DecoderSettings(architecture, 32, norm=norm)
    head = HeadSettings(subcentroids=settings.pop("subcentroids", 3))
    return segmenter(
        name,
        classes,
        decoder=decoder,
        head=head,
        output_stride=stride,
        image_size=settings.pop("image_size", 64),
        generator=torch.Generator().manual_seed(0),
        **settings,
    )[0]


def trained(**settings) -> Segmenter:
    """The same with cases of three of its four classes."""
    model = small(**settings)
    images, labels = torch.randn(2, 3, 64, 64), torch.randint(3, (2, 64, 64))
    features = model.eval().features(images).detach()
    model.head.absorb(features, model.labels_of_positions(labels))
    return model


@pytest.mark.parametrize(("name", "stride", "architecture"), CASES)
def test_every_architecture_scores_every_pixel_of_images_of_any_size(name, stride, architecture):
    model = small(name, stride=stride, architecture=architecture, auxiliary=True)
    found = model.training_scores(torch.randn(2, 3, 70, 101))
    assert found.scores.shape == found.auxiliary.shape == (2, 4, 70, 101)
    height, width = (-(-side // model.multiple) * model.multiple for side in (70, 101))
    assert found.features.shape == (2, 32, height // model.stride, width // model.stride)
    labels = torch.randint(4, (2, 70, 101))
    positions = model.labels_of_positions(labels)
    assert positions.shape == (2, *found.features.shape[2:])
    loss = nn.functional.cross_entropy(found.scores, labels) + found.auxiliary.sum()
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.decoder.parameters())


@pytest.mark.parametrize(("name", "stride", "architecture"), CASES)
@pytest.mark.parametrize("kind", ["dnc", "softmax"])
def test_the_network_of_a_classifier_goes_on_without_losing_or_adding_a_weight(
    name, stride, architecture, kind
):
    earlier, _ = classifier(name, 7, kind=kind, image_size=64)
    model = small(name, stride=stride, architecture=architecture)
    missing, unexpected = model.backbone.load_state_dict(earlier.backbone.state_dict())
    assert not missing
    assert not unexpected
    # And the last map is what the classifier takes the mean of: nothing is left out on the way.
    if stride is None and architecture != "upernet":
        images = torch.randn(1, 3, 64, 64)
        last = {}
        model.decoder.register_forward_pre_hook(lambda _, given: last.update(maps=given[0]))
        with torch.no_grad():
            model.eval().features(images)
            pooled = earlier.eval().backbone(images)
        if name in ("test_resnet", "test_efficientnet"):
            torch.testing.assert_close(last["maps"][-1].mean(dim=(2, 3)), pooled)


def test_dilation_keeps_weights_and_makes_maps_finer():
    coarse, fine = small(stride=None), small(stride=8)
    assert (coarse.stride, fine.stride) == (32, 8)
    assert coarse.backbone.state_dict().keys() == fine.backbone.state_dict().keys()


def test_one_subcentroid_and_no_momentum_is_the_nearest_class_mean_by_hand():
    model = small(subcentroids=1, classes=3).eval()
    model.head.momentum, model.head.only_correct = 0.0, False
    image = torch.zeros(1, 3, 64, 64)
    image[..., :20], image[..., 40:] = -1.5, 1.5
    labels = torch.full((1, 64, 64), IGNORED)
    labels[..., :20], labels[..., 20:40], labels[..., 40:] = 0, 1, 2
    with torch.no_grad():
        features = model.features(image)
    positions = model.labels_of_positions(labels)
    model.head.absorb(features, positions)

    rows = nn.functional.normalize(features[0].flatten(1).T.double(), dim=1)
    of_rows = positions.flatten()
    means = torch.stack([rows[of_rows == c].mean(dim=0) for c in range(3)])
    means = means / means.norm(dim=1, keepdim=True)
    grid = rows.T.reshape(1, 32, 8, 8)
    pixels = interpolate(grid, scale_factor=8, mode="bilinear")[0]
    nearest = torch.einsum("dhw,cd->chw", pixels, means).argmax(dim=0)
    found = model.labels(viewed_features(model, image), (64, 64))
    assert torch.equal(found, nearest)
    assert len(found.unique()) > 1


def test_a_class_without_a_case_is_never_the_answer_and_leaves_no_nan():
    model = trained().eval()
    image = torch.randn(1, 3, 50, 70)
    with torch.no_grad():
        scores = model(image)
    assert (scores[:, 3] == -torch.inf).all()
    assert scores[:, :3].isfinite().all()
    decision = model.decide(viewed_features(model, image), (50, 70))
    assert (decision.label < 3).all()
    agreement = (scores[0].argmax(dim=0) == decision.label).double().mean()
    assert agreement > 0.95  # of class scores that are mixed, and of cases that are


def test_a_linear_layer_gives_the_class_of_the_largest_mixed_score():
    model = small(kind="softmax").eval()
    image = torch.randn(1, 3, 64, 72)
    with torch.no_grad():
        scores = model(image)
    found = model.labels(viewed_features(model, image), (64, 72))
    assert torch.equal(found, scores[0].argmax(dim=0))
    with pytest.raises(InvalidModel, match="has no sub-centroids"):
        model.decide(viewed_features(model, image), (64, 72))


@pytest.mark.parametrize("kind", ["dnc", "softmax"])
@pytest.mark.parametrize("window", [72, 80, 500])
def test_a_window_that_covers_the_image_is_the_whole_image(kind, window):
    model = trained() if kind == "dnc" else small(kind="softmax")
    image = torch.randn(1, 3, 60, 70)
    whole = viewed_features(model.eval(), image)
    assert torch.equal(viewed_features(model, image, Views(window=window)), whole)


def test_windows_see_every_position_and_are_averaged_where_they_overlap(monkeypatch):
    model = trained().eval()
    image, seen = torch.randn(1, 3, 64, 96), []

    def watched(part):
        seen.append(part)
        return torch.ones(1, 32, part.shape[2] // 8, part.shape[3] // 8) * len(seen)

    monkeypatch.setattr(model, "features", watched)
    monkeypatch.setattr(model.head, "keep_length", True)
    found = viewed_features(model, image, Views(window=64, overlap=0.5))
    assert [part.shape[2:] for part in seen] == [(64, 64)] * 2
    assert torch.equal(seen[1], image[..., 32:])
    columns = found[0, 0].tolist()
    assert columns == [1.0] * 4 + [1.5] * 4 + [2.0] * 4


def test_the_mirror_image_has_the_mirrored_labels_when_both_are_looked_at():
    model = trained().eval()
    image = torch.randn(1, 3, 64, 64)
    views = Views(flip=True)
    one = viewed_features(model, image, views)
    other = viewed_features(model, image.flip(3), views)
    torch.testing.assert_close(other, one.flip(2), atol=1e-5, rtol=0)


def test_scales_are_averaged_where_they_show_the_same_place():
    model = trained().eval()
    image = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        large = interpolate(image, size=(128, 128), mode="bilinear", antialias=True)
        of_large = normalised(model.features(large)[0].movedim(0, -1))
        of_image = normalised(model.features(image)[0].movedim(0, -1))
    # Position i of the image is in the middle between positions 2i and 2i + 1 of the larger one.
    pairs = of_large.unflatten(0, (8, 2)).unflatten(2, (8, 2)).mean(dim=(1, 3))
    found = viewed_features(model, image, Views(scales=(1.0, 2.0))).movedim(0, -1)
    torch.testing.assert_close(found, (of_image + pairs) / 2, atol=1e-5, rtol=0)


def test_labels_of_an_image_that_was_seen_larger_are_those_of_its_own_pixels():
    model = trained().eval()
    features = viewed_features(model, torch.randn(1, 3, 64, 64))
    whole = model.labels(features, (64, 64))
    small_one = model.labels(features, (32, 32), seen=(64, 64))
    assert small_one.shape == (32, 32)
    assert (small_one == whole[1::2, 1::2]).double().mean() > 0.9


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_embedding_is_a_linear_map_of_the_rectified_features(architecture):
    torch.manual_seed(0)
    decoder = DecoderSettings(architecture, 32, norm="group", embedding=5)
    model, _ = segmenter("test_resnet", 4, decoder=decoder, image_size=64)
    assert model.dim == model.head.dim == 5
    images = torch.randn(2, 3, 64, 64)
    rectified = []
    model.eval().decoder.decoder.register_forward_hook(
        lambda module, inputs, output: rectified.append(output)
    )
    features = model.features(images)
    weight = model.decoder.embedding.weight[:, :, 0, 0]
    expected = torch.einsum("ed,ndhw->nehw", weight, rectified[0])
    torch.testing.assert_close(features, expected)
    assert (rectified[0] >= 0).all()
    assert (features < 0).any()


@pytest.mark.parametrize("architecture", ["fcn", "deeplabv3"])
def test_what_is_dropped_in_training_is_dropped_before_the_last_convolution(architecture):
    model = small(architecture=architecture)
    order = []
    for module in model.decoder.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Dropout | torch.nn.Dropout2d):
            module.register_forward_hook(lambda one, inputs, output: order.append(type(one)))
    model.train().features(torch.randn(2, 3, 64, 64))
    assert order[-1] is torch.nn.Conv2d
    assert {torch.nn.Dropout, torch.nn.Dropout2d} & set(order)


def test_positions_have_the_class_of_the_pixel_in_their_middle():
    model = small()
    labels = torch.arange(20 * 30).view(1, 20, 30)
    found = model.labels_of_positions(labels)
    assert found.shape == (1, 3, 4)
    assert found[0, 0, 0] == labels[0, 4, 4]
    assert found[0, 1, 2] == labels[0, 12, 20]
    assert (found[0, 2] == IGNORED).all()  # row 20 is beyond the image


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"architecture": "unet"}, "architecture is unet; it must be one of fcn"),
        ({"channels": 0}, "channels is 0"),
        ({"embedding": 0}, "embedding is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"norm": "layer"}, "norm is layer; it must be one of batch, group"),
        ({"architecture": "upernet", "separable": True}, "no separable convolutions"),
    ],
)
def test_decoders_that_cannot_be_are_refused(wrong, told):
    with pytest.raises(InvalidSetting, match=told):
        DecoderSettings(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"window": 0}, {"overlap": 1.0}, {"scales": ()}, {"scales": (0.0,)}]
)
def test_views_that_cannot_be_are_refused(wrong):
    with pytest.raises(InvalidSetting, match=next(iter(wrong))):
        Views(**wrong)


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("resnet20-cifar", {}, "not for scenes"),
        ("densenet121", {"stride": None}, "gives no maps"),
        ("densenet121", {}, "timm cannot make densenet121"),
        ("test_vit", {"architecture": "upernet", "stride": None}, "takes 4 maps"),
        ("swin_s3_tiny_224", {"stride": 8}, "cannot be dilated"),
        ("test_resnet", {"stride": 4}, "output_stride is 4"),
    ],
)
def test_networks_that_cannot_be_segmenters_are_refused(name, options, told):
    with pytest.raises((InvalidModel, InvalidSetting), match=told):
        small(name, **options)
