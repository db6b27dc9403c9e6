"""How a segmenter looks at a whole image: at once or in windows, mirrored, at several scales.

Every view ends in one map of features, in which those of all views are averaged; then the head
decides once. With sub-centroids the product with each case is thereby the mean over the views, and
with a linear layer the scores are: whatever the views, one case decides a pixel and can be shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from dnc.centroids import Sampling, SubCentroidHead, mixed, normalised
from dnc.errors import InvalidSetting
from dnc.models.segmentation import Segmenter


@dataclass(frozen=True)
class Views:
    """The views of an image that are averaged.

    Attributes:
        window: side of the squares that are looked at, one after the other; None is the whole
            image at once. It is rounded up to what the network's stride allows.
        overlap: share of a window that the next one covers again.
        flip: look at the mirrored image too.
        scales: look at the image at these scales.
    """

    window: int | None = None
    overlap: float = 1 / 3
    flip: bool = False
    scales: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        """Raises unless every setting is in its range."""
        for name, value, allowed, sensible in (
            ("window", self.window, self.window is None or self.window >= 1, "at least 1"),
            ("overlap", self.overlap, 0 <= self.overlap < 1, "at least 0 and below 1"),
            ("scales", self.scales, len(self.scales) > 0, "one or more numbers"),
            ("scales", self.scales, all(0.1 <= s <= 10 for s in self.scales), "in 0.1..10"),
        ):
            if not allowed:
                raise InvalidSetting(f"{name} is {value}; it must be {sensible}.")


WHOLE = Views()


@torch.no_grad()
def viewed_features(
    segmenter: Segmenter, image: Float[Tensor, "1 3 H W"], views: Views = WHOLE
) -> Float[Tensor, "d h w"]:
    """Features of the positions of an image, averaged over the views; in evaluation mode."""
    multiple, stride = segmenter.multiple, segmenter.stride
    height, width = (-(-side // multiple) * multiple // stride for side in image.shape[2:])
    total = image.new_zeros(height, width, segmenter.dim, dtype=torch.float32)
    for scale in views.scales:
        scaled = image
        if scale != 1:
            sides = [max(1, round(side * scale)) for side in image.shape[2:]]
            scaled = functional.interpolate(image, size=sides, mode="bilinear", antialias=True)
        padded = _padded(scaled, multiple)
        for is_mirrored in (False, True) if views.flip else (False,):
            seen = _in_windows(segmenter, padded.flip(3) if is_mirrored else padded, views)
            seen = seen.flip(1) if is_mirrored else seen
            if scale != 1:
                rows, columns = (
                    Sampling.of(have, want, step=side / scaled_side, device=image.device)
                    for have, want, scaled_side, side in zip(
                        seen.shape[:2],
                        (height, width),
                        scaled.shape[2:],
                        image.shape[2:],
                        strict=True,
                    )
                )
                seen = mixed(seen, rows, columns)
            total += seen
    count = len(views.scales) * (2 if views.flip else 1)
    return (total / count).movedim(-1, 0)


def _in_windows(
    segmenter: Segmenter, image: Float[Tensor, "1 3 H W"], views: Views
) -> Float[Tensor, "h w d"]:
    """Features of a padded image, averaged over the windows that have seen a position."""
    sides, stride = image.shape[2:], segmenter.stride
    if views.window is None or all(side <= views.window for side in sides):
        return _rows(segmenter, image)
    window = -(-views.window // segmenter.multiple) * segmenter.multiple
    total = image.new_zeros(sides[0] // stride, sides[1] // stride, segmenter.dim)
    times = total.new_zeros(*total.shape[:2], 1)
    for top in _begins(sides[0], window, segmenter.multiple, views.overlap):
        for left in _begins(sides[1], window, segmenter.multiple, views.overlap):
            seen = _rows(segmenter, image[..., top : top + window, left : left + window])
            rows, columns = seen.shape[:2]
            place = (
                slice(top // stride, top // stride + rows),
                slice(left // stride, left // stride + columns),
            )
            total[place] += seen
            times[place] += 1
    return total / times


def _rows(segmenter: Segmenter, image: Float[Tensor, "1 3 H W"]) -> Float[Tensor, "h w d"]:
    features = segmenter.features(image.contiguous(memory_format=torch.channels_last))
    rows = features[0].movedim(0, -1).float()
    head = segmenter.head
    has_unit_length = isinstance(head, SubCentroidHead) and not head.keep_length
    return normalised(rows) if has_unit_length else rows


def _begins(side: int, window: int, multiple: int, overlap: float) -> Iterator[int]:
    """Where windows begin: evenly, and the last one ends with the image."""
    step = max(multiple, int(window * (1 - overlap)) // multiple * multiple)
    begin = 0
    while begin + window < side:
        yield begin
        begin += step
    yield max(0, side - window)


def _padded(image: Float[Tensor, "1 3 H W"], multiple: int) -> Float[Tensor, "1 3 H W"]:
    height, width = (-side % multiple for side in image.shape[2:])
    return functional.pad(image, (0, width, 0, height))
