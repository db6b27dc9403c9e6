"""Similarity maps: how much of a cosine comes from which place of an image.

Where a network ends in a mean over places, and what follows is affine (a projection, the centring),
the cosine to a case is a sum over places. The place where that mean is taken is found by looking
for a tensor whose mean is what the network gives, so it needs no knowledge of architectures.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dnc.centroids import normalised
from dnc.models import Classifier

# Relative to the largest feature; what rounding leaves when a mean is taken in another order.
SAME = 1e-4
COVER = 7  # the approximation covers one of 7 x 7 parts at a time


@dataclass(frozen=True)
class Seen:
    """What a network sees in images.

    Attributes:
        features: one row for each image, of length 1.
        shares: for each place, the part of the features that comes from it; their sum over the
            places is `features`. None where the network does not take a mean over places.
    """

    features: Float[Tensor, "n d"]
    shares: Float[Tensor, "n h w d"] | None

    def map_to(self, case: Float[Tensor, " d"]) -> Float[Tensor, "n h w"] | None:
        """The cosine to a vector of length 1, divided among the places that it comes from."""
        return None if self.shares is None else self.shares @ case.to(self.shares.dtype)


@torch.no_grad()
def seen_in(model: Classifier, images: Float[Tensor, "n 3 h w"]) -> Seen:
    """What a classifier in evaluation mode sees in images, place by place if it allows that."""
    with _Watch(model.backbone) as watched:
        rows = model.features(images)
    pooled: Tensor = watched.result
    length = rows.double().norm(dim=1)
    for tensor in reversed(watched.tensors):
        places = _places(tensor, pooled, _prefix(model.backbone))
        if places is None:
            continue
        n, h, w, d = places.shape
        after = model.centring(model.projection(places.reshape(-1, d)))
        shares = after.double().view(n, h, w, -1) / (h * w)
        gap = (shares.sum(dim=(1, 2)) - rows.double()).abs().amax()
        if gap > SAME * rows.abs().amax():
            continue
        divided = torch.where(length > 0, length, 1.0)
        return Seen(normalised(rows), shares / divided[:, None, None, None])
    return Seen(normalised(rows), None)


@torch.no_grad()
def covering_map(
    model: Classifier, image: Float[Tensor, "3 h w"], case: Float[Tensor, " d"]
) -> Float[Tensor, "r r"]:
    """How much the cosine to a case falls when a part of the image is covered; an approximation.

    For networks that take no mean over places. It does not add up to the cosine.
    """
    parts = image.expand(COVER * COVER, *image.shape).clone()
    height, width = image.shape[1:]
    for part in range(COVER * COVER):
        row, column = divmod(part, COVER)
        parts[
            part,
            :,
            row * height // COVER : (row + 1) * height // COVER,
            column * width // COVER : (column + 1) * width // COVER,
        ] = 0  # the mean colour of the images that the network was trained on
    whole = normalised(model.features(image[None])) @ case
    covered = torch.cat([normalised(model.features(some)) @ case for some in parts.split(16)])
    return (whole - covered).view(COVER, COVER)


class _Watch:
    """Watches a network: keeps every tensor with places that passes, and the result."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.tensors: list[Tensor] = []
        self.result: Tensor = torch.empty(0)
        self._handles: list[torch.utils.hooks.RemovableHandle] = []

    def __enter__(self) -> "_Watch":
        for module in self.network.modules():
            keep: Callable[..., None] = self._keep
            self._handles.append(module.register_forward_hook(keep))
        return self

    def __exit__(self, *raised: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _keep(self, module: nn.Module, given: tuple[object, ...], made: object) -> None:
        for tensor in (*given[:1], made):
            if isinstance(tensor, Tensor) and tensor.ndim in (3, 4):
                self.tensors.append(tensor)
        if module is self.network and isinstance(made, Tensor):
            self.result = made


def _prefix(network: nn.Module) -> int:
    """Tokens of no place, before those of places."""
    number = getattr(network, "num_prefix_tokens", 0)
    return number if isinstance(number, int) else 0


def _places(
    tensor: Tensor, pooled: Float[Tensor, "n d"], prefix: int
) -> Float[Tensor, "n h w d"] | None:
    """The tensor as `(n h w d)` if its mean over several places is what the network gives."""
    n, d = pooled.shape
    candidates = []
    if tensor.ndim == 4 and tensor.shape[0] == n:
        candidates = [tensor.movedim(1, -1), tensor]
    elif tensor.ndim == 3 and tensor.shape[0] == n and tensor.shape[1] > prefix:
        tokens = tensor[:, prefix:]
        side = round(tokens.shape[1] ** 0.5)
        if side * side == tokens.shape[1]:
            candidates = [tokens.reshape(n, side, side, -1)]
    for places in candidates:
        if places.shape[-1] == d and places.shape[1] * places.shape[2] > 1:
            gap = (places.mean(dim=(1, 2)) - pooled).abs().amax()
            if gap <= SAME * pooled.abs().amax():
                return places
    return None
