"""Networks by name: the paper's, some for small machines, and all of timm's."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import timm
import torch
from torch import nn

from dnc.errors import InvalidModel, InvalidSetting
from dnc.models import efficientnet_lite
from dnc.models.centring import Centring
from dnc.models.classification import Classifier, assembled
from dnc.models.heads import DEFAULT_HEAD, HeadSettings, Kind
from dnc.models.last_layer import inputs_and_outputs, last_layers, without
from dnc.models.small_images import SMALL_DIM, for_small_images, small_resnet
from dnc.models.timm_networks import Images, images_of_timm, is_known_to_timm, network_of_timm
from dnc.models.weights import load_, weights_of

Source = Literal["dnc", "timm", "package"]

# Networks of our own, by their blocks in each of three stages.
SMALL = {"resnet8-cifar": 1, "resnet20-cifar": 3}
PACKAGED = "efficientnet-lite0"
FOR_SMALL_IMAGES = (*SMALL, "resnet18-cifar", "resnet50-cifar", "resnet101-cifar")
# What timm calls the networks that have a name of their own here.
ARCHITECTURES = {
    "resnet18-cifar": "resnet18",
    "resnet50-cifar": "resnet50",
    "resnet101-cifar": "resnet101",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "resnet101": "resnet101",
    "swin-t": "swin_tiny_patch4_window7_224",
    "swin-s": "swin_small_patch4_window7_224",
    "swin-b": "swin_base_patch4_window7_224",
    "mobilenet-v2": "mobilenetv2_100",
    PACKAGED: efficientnet_lite.ARCHITECTURE,
}
CIFAR_IMAGES = Images(
    size=32,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    interpolation="bicubic",
    share=1.0,
)


@dataclass(frozen=True)
class NetworkInfo:
    """What a network is and what images it takes.

    Attributes:
        name: the name it was asked for by.
        dim: dimension of its features.
        parameters: parameters of the backbone, without any head.
        input_size: height and width of its images.
        mean: mean of each channel to subtract, for values of 0 to 1.
        std: what to divide each channel by after that.
        interpolation: how images are made smaller, such as "bicubic".
        resize: length of the shorter side in evaluation, before the centre is cut out.
        source: "dnc", "timm", or "package" for weights that come as a Python package.
        architecture: timm's name of the network, or its own.
        left_out: names in the file of weights that belong to the last layer.

    """

    name: str
    dim: int
    parameters: int
    input_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    resize: int
    source: Source
    architecture: str
    left_out: tuple[str, ...] = ()


def network_names() -> list[str]:
    """Names of dnc's own; every name that timm knows can be used beside them."""
    return [*SMALL, *ARCHITECTURES]


def backbone(
    name: str,
    *,
    pretrained: bool | str | Path = False,
    drop_path: float = 0.0,
    image_size: int | None = None,
    output_stride: int | None = None,
    any_size: bool = False,
) -> tuple[nn.Module, NetworkInfo]:
    """A network from images to features, without its last layer, and what it is.

    Args:
        name: one of `network_names()`, or any name of timm, with or without a tag.
        pretrained: True for the weights that timm or the package has; or a file of weights,
            safetensors or torch, whose last layer is left out.
        drop_path: share of residual branches that are left out in training (stochastic depth).
        image_size: height and width of the images, if not those the network was made for.
        output_stride: pixels between two positions of the last map of features, 8, 16 or 32: the
            last convolutions are dilated instead of taking steps. None leaves them as they are.
        any_size: take images of other sizes too, where a network would insist on one.

    """
    require_known(name)
    if output_stride not in (None, 8, 16, 32):
        raise InvalidSetting(f"output_stride is {output_stride}; use 8, 16 or 32.")
    if not 0 <= drop_path < 1:
        raise InvalidSetting(f"drop_path is {drop_path}; use a share from 0 to below 1.")
    if image_size is not None and image_size < 1:
        raise InvalidSetting(f"image_size is {image_size}; use a number of pixels, at least 1.")
    network = _network(
        name,
        hub=pretrained is True,
        drop_path=drop_path,
        image_size=image_size,
        output_stride=output_stride,
        any_size=any_size,
    )
    layers = {} if name in SMALL else last_layers(network)
    dim = _dim(network, layers)
    left_out: list[str] = []
    if pretrained is True and name == PACKAGED:
        weights = efficientnet_lite.packaged_weights()
        left_out = load_(network, weights, ignored=list(layers), source="the package's weights")
    elif not isinstance(pretrained, bool):
        weights = weights_of(pretrained)
        left_out = load_(network, weights, ignored=list(layers), source=pretrained)
    features = without(network, list(layers))
    images = _images(name, network)
    size = image_size or images.size
    info = NetworkInfo(
        name=name,
        dim=dim,
        parameters=sum(parameter.numel() for parameter in features.parameters()),
        input_size=size,
        mean=images.mean,
        std=images.std,
        interpolation=images.interpolation,
        resize=round(size / images.share),
        source="package" if name == PACKAGED else "dnc" if name in FOR_SMALL_IMAGES else "timm",
        architecture=ARCHITECTURES.get(name, name),
        left_out=tuple(left_out),
    )
    return features, info


def classifier(
    name: str,
    classes: int,
    *,
    kind: Kind = "dnc",
    head: HeadSettings = DEFAULT_HEAD,
    projection: int | None = None,
    centring: Centring = "none",
    pretrained: bool | str | Path = False,
    drop_path: float = 0.0,
    image_size: int | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Classifier, NetworkInfo]:
    """A classifier on a network by name, and what the network is.

    Args:
        name: as for `backbone`.
        classes: number of classes.
        kind: "dnc" for sub-centroids, "softmax" for a linear layer on the same network.
        head: settings of the sub-centroids.
        projection: dimension to project the features to with a learnt layer, or None.
        centring: what is taken out of the features, as for `centring_layer`.
        pretrained: as for `backbone`.
        drop_path: as for `backbone`.
        image_size: as for `backbone`.
        generator: source of the random start of projection and head.

    """
    network, info = backbone(
        name, pretrained=pretrained, drop_path=drop_path, image_size=image_size
    )
    made = assembled(
        network,
        info.dim,
        classes,
        kind=kind,
        settings=head,
        projection=projection,
        centring=centring,
        generator=generator,
    )
    return made, info


def describe(name: str, *, image_size: int | None = None) -> NetworkInfo:
    """What a network is, without its weights."""
    require_known(name)
    try:
        with torch.device("meta"):
            return backbone(name, image_size=image_size)[1]
    except InvalidModel:
        # Some networks compute with their weights while they are made, which needs real ones.
        return backbone(name, image_size=image_size)[1]


def require_known(name: str) -> None:
    """Refuses a name that is no network's."""
    if name in network_names() or is_known_to_timm(name):
        return
    near = difflib.get_close_matches(
        name.lower(), sorted({*network_names(), *timm.list_models()}), n=3
    )
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise InvalidModel(
        f"No network is called {name!r}; {hint}Use one of {', '.join(network_names())}, or a name "
        "of timm.list_models()."
    )


def _network(
    name: str,
    *,
    hub: bool,
    drop_path: float,
    image_size: int | None,
    output_stride: int | None,
    any_size: bool,
) -> nn.Module:
    """The network with its last layer."""
    if name in FOR_SMALL_IMAGES and any_size:
        raise InvalidModel(
            f"{name} is for images of {CIFAR_IMAGES.size} pixels and not for scenes; use "
            f"{PACKAGED}, resnet101, swin-b, mobilenet-v2 or a network of timm."
        )
    if hub and name in FOR_SMALL_IMAGES:
        raise InvalidModel(
            f"There are no published weights for {name}; give a file of weights, or train it."
        )
    if name in SMALL and drop_path:
        raise InvalidSetting(f"{name} has no stochastic depth; use drop_path=0.")
    if name in SMALL:
        return small_resnet(SMALL[name])
    if name in FOR_SMALL_IMAGES:
        return for_small_images(ARCHITECTURES[name], drop_path=drop_path)
    return network_of_timm(
        ARCHITECTURES.get(name, name),
        pretrained=hub and name != PACKAGED,
        drop_path=drop_path,
        image_size=image_size,
        output_stride=output_stride,
        any_size=any_size,
    )


def _images(name: str, network: nn.Module) -> Images:
    if name in FOR_SMALL_IMAGES:
        return CIFAR_IMAGES
    images = images_of_timm(network)
    if name == PACKAGED:
        mean, std = (efficientnet_lite.MEAN,) * 3, (efficientnet_lite.STD,) * 3
        return replace(images, mean=mean, std=std)
    return images


def _dim(network: nn.Module, layers: Mapping[str, nn.Linear | nn.Conv2d]) -> int:
    if isinstance(network, nn.Sequential):
        return SMALL_DIM
    if layers:
        return inputs_and_outputs(next(iter(layers.values())))[0]
    dim = getattr(network, "head_hidden_size", None) or network.num_features
    assert isinstance(dim, int)
    return dim
