"""Networks of timm: whether there is one of a name, made, and the images it takes."""

from dataclasses import dataclass
from typing import Any

import timm
from timm.data.config import resolve_model_data_config
from timm.models import get_pretrained_cfg
from torch import nn

from dnc.errors import InvalidModel


@dataclass(frozen=True)
class Images:
    """The images that a network takes.

    Attributes:
        size: height and width.
        mean: mean of each channel to subtract, for values of 0 to 1.
        std: what to divide each channel by after that.
        interpolation: how images are made smaller, such as "bicubic".
        share: side of what is cut out of the centre, as a share of the shorter side.

    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    share: float


def is_known_to_timm(name: str) -> bool:
    """Whether timm has a network of this name, with this tag if it carries one."""
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        return False
    return not tag or name in timm.list_pretrained(f"{architecture}.*")


def network_of_timm(
    name: str,
    *,
    pretrained: bool,
    drop_path: float,
    image_size: int | None,
    output_stride: int | None = None,
    any_size: bool = False,
) -> nn.Module:
    """The network of that name, with its last layer; arguments as for `backbone`."""
    config = get_pretrained_cfg(name)
    if pretrained and (config is None or not config.has_weights):
        raise InvalidModel(f"timm has no weights for {name}; give a file of weights.")
    # Networks whose weights depend on the size of the image must know it; others take any.
    fixed = config is not None and config.fixed_input_size

    def made(**options: Any) -> nn.Module:
        return timm.create_model(
            name,
            pretrained=pretrained,
            drop_path_rate=drop_path or None,
            img_size=image_size if fixed else None,
            output_stride=output_stride,
            **options,
        )

    try:
        if not (fixed and any_size):
            return made()
        try:
            return made(strict_img_size=False)  # what windowed transformers call it
        except TypeError:
            return made(dynamic_img_size=True)
    except Exception as error:  # whatever the network, the hub or the connection to it raise
        reason = f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
        if pretrained:
            raise InvalidModel(
                f"The weights of {name} could not be fetched from timm's hub {reason}. Give a file "
                "of weights that you have (dnc fit: --weights FILE; dnc train: --set "
                "model.pretrained=FILE; Python: pretrained=FILE), or use efficientnet-lite0, whose "
                "weights come with the installation."
            ) from error
        raise InvalidModel(
            f"timm cannot make {name} with drop_path {drop_path}, image_size {image_size}"
            f"{f' and output_stride {output_stride}' if output_stride else ''} {reason}; leave out "
            "what it does not offer, or use another network."
        ) from error


def images_of_timm(network: nn.Module) -> Images:
    """The images that a network of timm was made for."""
    config = resolve_model_data_config(network)  # type: ignore[no-untyped-call]
    return Images(
        size=config["input_size"][-1],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config["interpolation"],
        share=config["crop_pct"],
    )
