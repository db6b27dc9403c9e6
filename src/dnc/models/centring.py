"""What is taken out of features before their direction counts: nothing, mean or spread."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dnc.errors import InvalidSetting

Centring = Literal["none", "standard", "whitened"]
KINDS: tuple[str, ...] = get_args(Centring)

# Shares of the mean variance below this are noise; to divide by them would be to magnify it.
LEAST_SHARE = 1e-2


class Whitening(nn.Module):
    """Features less a mean, times a matrix that makes their spread the same in every direction.

    Cosines behind it are those of linear discriminant analysis: a direction in which the images of
    a class scatter counts for little, whatever its length. Mean and matrix are statistics, set from
    data with `set_`; nothing is learnt, and they stay as they are in training.
    """

    mean: Float[Tensor, " d"]
    matrix: Float[Tensor, "d d"]

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("matrix", torch.eye(dim))

    def forward(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The features, whitened; in float32 or better."""
        with torch.autocast(features.device.type, enabled=False):
            exact = torch.promote_types(features.dtype, torch.float32)
            exact = torch.promote_types(exact, self.mean.dtype)
            return (features.to(exact) - self.mean.to(exact)) @ self.matrix.to(exact)

    @torch.no_grad()
    def set_(
        self, mean: Float[Tensor, " d"], covariance: Float[Tensor, "d d"], shrinkage: float
    ) -> None:
        """Takes over a mean and the inverse root of a covariance.

        Args:
            mean: of the features.
            covariance: their spread inside the classes.
            shrinkage: share of the covariance that gives way to one that is the same in all
                directions; with few images the small variances are mostly chance.

        """
        if not 0 <= shrinkage <= 1:
            raise InvalidSetting(f"shrinkage is {shrinkage}; it must be between 0 and 1.")
        variances, directions = torch.linalg.eigh(covariance.double())
        average = variances.mean()
        if average > 0:
            share = max(shrinkage, LEAST_SHARE)
            shrunk = (1 - share) * variances.clamp(min=0) + share * average
            self.matrix.copy_(directions @ torch.diag(shrunk.rsqrt()) @ directions.mT)
        else:  # no class has two different images
            self.matrix.copy_(torch.eye(len(mean)))
        self.mean.copy_(mean)


def centring_layer(kind: Centring, dim: int) -> nn.Module:
    """The layer between the features and the head.

    Args:
        kind: `none`; `standard` takes mean and spread out of each dimension by itself (batch
            normalisation without learnt scale and shift); `whitened` makes the spread inside the
            classes the same in every direction, by statistics that are set from data.
        dim: of the features.

    """
    match kind:
        case "none":
            return nn.Identity()
        case "standard":
            return nn.BatchNorm1d(dim, affine=False)
        case "whitened":
            return Whitening(dim)
        case _:
            raise InvalidSetting(f"centring is {kind!r}; use one of {', '.join(KINDS)}.")
