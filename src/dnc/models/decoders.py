"""Decoders: from the maps of a network to one map of features for every position.

What a segmentation network has between its backbone and its last 1x1 convolution. DeepLabV3's and
UperNet's are those of segmentation-models-pytorch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from segmentation_models_pytorch.decoders.deeplabv3.decoder import (
    DeepLabV3Decoder,
    SeparableConv2d,
)
from segmentation_models_pytorch.decoders.upernet.decoder import UPerNetDecoder
from torch import Tensor, nn

from dnc.errors import InvalidModel, InvalidSetting
from dnc.models.feature_maps import MapInfo

Architecture = Literal["fcn", "deeplabv3", "upernet"]
Norm = Literal["batch", "group"]
ARCHITECTURES: tuple[str, ...] = get_args(Architecture)
NORMS: tuple[str, ...] = get_args(Norm)

# Pixels between the taps of DeepLabV3's three dilated convolutions, in positions: they span the
# same part of the image at either stride.
RATES = {8: (12, 24, 36), 16: (6, 12, 18)}
LEVELS_OF_UPERNET = 4
GROUPS = 32
# DeepLabV3 takes the mean over the image of each channel; one alone in its group would be zero.
LEAST_IN_A_GROUP = 4


@dataclass(frozen=True)
class DecoderSettings:
    """What a decoder is like.

    Attributes:
        architecture: `fcn`, `deeplabv3` or `upernet`.
        channels: of the features that it gives, unless they are embedded.
        separable: the 3x3 convolutions of FCN and DeepLabV3 as depthwise and pointwise ones, for
            small machines.
        dropout: of what the last 3x3 convolution of FCN and DeepLabV3 sees in training. Features
            themselves are never dropped: cosines of what is left are those of another direction.
        norm: statistics over the batch, or over groups of channels of each image by itself, which
            is for batches of a few images.
        embedding: dimension to which a last linear layer (a 1x1 convolution) takes the features,
            so that they may have any sign; None for none. It is to sub-centroids, which learn
            nothing, what the 1x1 convolution of a softmax segmenter is to that.
    """

    architecture: Architecture = "deeplabv3"
    channels: int = 256
    separable: bool = False
    dropout: float = 0.1
    norm: Norm = "batch"
    embedding: int | None = None

    @property
    def dim(self) -> int:
        """Of the features that the head takes."""
        return self.channels if self.embedding is None else self.embedding

    def __post_init__(self) -> None:
        """Raises unless every setting is in its range."""
        for name, value, allowed, sensible in (
            (
                "architecture",
                self.architecture,
                self.architecture in ARCHITECTURES,
                f"one of {', '.join(ARCHITECTURES)}",
            ),
            ("channels", self.channels, self.channels >= 1, "at least 1"),
            ("dropout", self.dropout, 0 <= self.dropout < 1, "at least 0 and below 1"),
            ("norm", self.norm, self.norm in NORMS, f"one of {', '.join(NORMS)}"),
            (
                "embedding",
                self.embedding,
                self.embedding is None or self.embedding >= 1,
                "at least 1, or None",
            ),
            (
                "separable",
                self.separable,
                not self.separable or self.architecture != "upernet",
                "false for upernet, which has no separable convolutions",
            ),
        ):
            if not allowed:
                raise InvalidSetting(f"{name} is {value}; it must be {sensible}.")


class FCNDecoder(nn.Module):
    """Two 3x3 convolutions on the last map, and one over their result beside that map."""

    def __init__(self, inputs: int, outputs: int, *, separable: bool, dropout: float) -> None:
        super().__init__()
        self.first = convolved(inputs, outputs, separable=separable)
        self.second = convolved(outputs, outputs, separable=separable)
        self.joined = convolved(inputs + outputs, outputs, separable=separable)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, maps: list[Tensor]) -> Float[Tensor, "n d h w"]:
        """The map of features."""
        last = maps[-1]
        found = self.second(self.first(last))
        joined: Tensor = self.joined(self.dropout(torch.cat([last, found], dim=1)))
        return joined


class PyramidDecoder(nn.Module):
    """UperNet's decoder on the last four maps, whatever lies before them."""

    def __init__(self, channels: Sequence[int], outputs: int) -> None:
        super().__init__()
        # The decoder leaves two maps out, which are finer than those it uses.
        self.decoder = UPerNetDecoder([0, 0, *channels], decoder_channels=outputs)

    def forward(self, maps: list[Tensor]) -> Float[Tensor, "n d h w"]:
        """The map of features, as fine as the first of the four."""
        used = maps[-LEVELS_OF_UPERNET:]
        found: Tensor = self.decoder([used[0], used[0], *used])
        return found


class EmbeddingDecoder(nn.Module):
    """A decoder, and a linear layer behind its last rectifier."""

    def __init__(self, decoder: nn.Module, channels: int, embedding: int) -> None:
        super().__init__()
        self.decoder = decoder
        self.embedding = nn.Conv2d(channels, embedding, 1, bias=False)

    def forward(self, maps: list[Tensor]) -> Float[Tensor, "n d h w"]:
        """The map of features."""
        found: Tensor = self.embedding(self.decoder(maps))
        return found


def decoder(settings: DecoderSettings, info: MapInfo) -> tuple[nn.Module, int]:
    """A new decoder for the maps of a network, and the stride of the map that it gives."""
    inputs, outputs, stride = info.channels[-1], settings.channels, info.strides[-1]
    made: nn.Module
    match settings.architecture:
        case "fcn":
            made = FCNDecoder(
                inputs, outputs, separable=settings.separable, dropout=settings.dropout
            )
        case "deeplabv3":
            rates = RATES[8 if stride <= 8 else 16]
            made = DeepLabV3Decoder(inputs, outputs, rates, settings.separable, settings.dropout)
        case "upernet":
            if len(info.channels) < LEVELS_OF_UPERNET:
                raise InvalidModel(
                    f"upernet takes {LEVELS_OF_UPERNET} maps of different fineness, and the "
                    f"network has {len(info.channels)}; use fcn or deeplabv3, or another network."
                )
            made = PyramidDecoder(info.channels[-LEVELS_OF_UPERNET:], outputs)
            stride = info.strides[-LEVELS_OF_UPERNET]
    if settings.norm == "group":
        made = with_group_norms(made)
    if settings.embedding is not None:
        made = EmbeddingDecoder(made, outputs, settings.embedding)
    return made, stride


def auxiliary_decoder(info: MapInfo, *, norm: Norm) -> tuple[nn.Module, int]:
    """What the last map but one is looked at by in training, and the channels that it gives."""
    inputs = info.channels[-2] if len(info.channels) > 1 else info.channels[-1]
    outputs = max(1, inputs // 4)
    made = convolved(inputs, outputs, separable=False)
    return (with_group_norms(made) if norm == "group" else made), outputs


def convolved(inputs: int, outputs: int, *, separable: bool) -> nn.Sequential:
    """A 3x3 convolution, norm and rectifier."""
    made = SeparableConv2d if separable else nn.Conv2d
    layer = made(inputs, outputs, 3, padding=1, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


def with_group_norms(module: nn.Module) -> nn.Module:
    """The same module with group norms in the place of batch norms; the module is changed."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.BatchNorm2d):
            channels = child.num_features
            most = max(1, min(GROUPS, channels // LEAST_IN_A_GROUP))
            groups = next(n for n in range(most, 0, -1) if channels % n == 0)
            setattr(module, name, nn.GroupNorm(groups, channels))
        else:
            with_group_norms(child)
    return module
