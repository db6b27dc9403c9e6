"""Segmenters by name: FCN, DeepLabV3 and UperNet on any network of timm that gives maps."""

from pathlib import Path

import torch
from torch import nn

from dnc.errors import InvalidModel
from dnc.models.centring import Centring
from dnc.models.decoders import DecoderSettings
from dnc.models.feature_maps import map_info
from dnc.models.heads import DEFAULT_HEAD, HeadSettings, Kind, linear, new_head
from dnc.models.networks import NetworkInfo, backbone
from dnc.models.segmentation import Segmenter

DEFAULT_DECODER = DecoderSettings()


def segmenter(
    name: str,
    classes: int,
    *,
    decoder: DecoderSettings = DEFAULT_DECODER,
    kind: Kind = "dnc",
    head: HeadSettings = DEFAULT_HEAD,
    output_stride: int | None = None,
    projection: int | None = None,
    centring: Centring = "none",
    auxiliary: bool = False,
    contrast: bool = False,
    pretrained: bool | str | Path = False,
    drop_path: float = 0.0,
    image_size: int | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Segmenter, NetworkInfo]:
    """A segmenter on a network by name, and what the network is.

    Args:
        name: as for `backbone`.
        classes: number of classes.
        decoder: what lies between the network and the head.
        kind: "dnc" for sub-centroids, "softmax" for the 1x1 convolution that they replace.
        head: settings of the sub-centroids.
        output_stride: as for `backbone`.
        projection: of a classifier that the network comes from, or None.
        centring: what is taken out of the features, as for `centring_layer`.
        auxiliary: deep supervision, as for `Segmenter`.
        contrast: of pixels, as for `Segmenter`.
        pretrained: as for `backbone`.
        drop_path: as for `backbone`.
        image_size: side of the images in training; others are taken as well.
        generator: source of the random start of the head.

    """
    network, info = backbone(
        name,
        pretrained=pretrained,
        drop_path=drop_path,
        image_size=image_size,
        output_stride=output_stride,
        any_size=True,
    )
    require_stride(network, output_stride, name)
    layer = None if projection is None else linear(info.dim, projection, generator=generator)
    return on_backbone(
        network,
        classes,
        decoder=decoder,
        kind=kind,
        head=head,
        projection=layer,
        centring=centring,
        auxiliary=auxiliary,
        contrast=contrast,
        generator=generator,
    ), info


def require_stride(network: nn.Module, wanted: int | None, name: str) -> None:
    """Refuses a network whose last map is not as fine as was asked for: some ignore it."""
    strides = map_info(network).strides
    if wanted is not None and strides[-1] != wanted:
        raise InvalidModel(
            f"{name} cannot be dilated: its last map has a stride of {strides[-1]}, whatever "
            f"output_stride says ({wanted}); leave output_stride out, or use another network."
        )


def on_backbone(
    network: nn.Module,
    classes: int,
    *,
    decoder: DecoderSettings,
    kind: Kind,
    head: HeadSettings,
    projection: nn.Linear | None,
    centring: Centring,
    auxiliary: bool,
    contrast: bool,
    generator: torch.Generator | None,
) -> Segmenter:
    """A segmenter on a network that is there already."""
    new = new_head(kind, decoder.dim, classes, settings=head, generator=generator)
    return Segmenter(
        network,
        new,
        decoder,
        projection=projection,
        centring=centring,
        auxiliary=auxiliary,
        contrast=contrast,
    )
