"""The maps of features that a classification network makes on its way, coarser and coarser.

The network stays what it is, with every weight under its name: what was learnt for whole images
goes on for pixels, and no layer is thrown away. The last map is the one that a classifier takes the
mean of.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from dnc.errors import InvalidModel


@dataclass(frozen=True)
class MapInfo:
    """What the maps of a network are like, from the finest to the coarsest.

    Attributes:
        channels: of each map.
        strides: how many pixels of the image lie between two positions of each.
    """

    channels: tuple[int, ...]
    strides: tuple[int, ...]


def map_info(network: nn.Module) -> MapInfo:
    """What the maps of a network of timm are like."""
    if not callable(getattr(network, "forward_intermediates", None)):
        raise InvalidModel(
            f"{type(network).__name__} gives no maps of features; use a network of timm that does "
            "(ResNet, Swin, MobileNet, EfficientNet, ConvNeXt and most others)."
        )
    levels = [(level["num_chs"], level["reduction"]) for level in network.feature_info]  # type: ignore[union-attr]
    # A plain transformer has a map behind every block, all alike: only the last counts.
    levels = list(dict.fromkeys(levels))
    last = network.num_features
    assert isinstance(last, int)
    # Some networks have one more layer behind their last block, before the mean is taken.
    channels = (*(number for number, _ in levels[:-1]), last)
    return MapInfo(channels, tuple(stride for _, stride in levels))


def feature_maps(
    network: nn.Module, images: Float[Tensor, "n 3 h w"], info: MapInfo
) -> list[Float[Tensor, "n _ _ _"]]:
    """The maps of a network for images, channels first, the finest first."""
    last, between = network.forward_intermediates(  # type: ignore[operator]
        images, norm=True, output_fmt="NCHW"
    )
    if last.ndim == 3:  # tokens, some of which may be of no place; the map has those of places
        last = between[-1]
    elif last.shape[2:] != between[-1].shape[2:]:  # channels last
        last = last.movedim(-1, 1)
    return [*between[: len(info.channels) - 1], last]
