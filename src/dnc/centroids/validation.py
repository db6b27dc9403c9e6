"""Checks of what users hand in: each error says what came, what is allowed and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsInt

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.errors import InvalidFeatures, InvalidLabels, InvalidSetting, NonFiniteFeatures


@dataclass(frozen=True)
class Rows:
    """Labelled rows, whatever shape the features had.

    Attributes:
        features: of each row.
        labels: its class.
        ids: its image, -1 if none was given.
        positions: where in its image it is, counted along rows; 0 if it is the whole of it.
    """

    features: Float[Tensor, "n d"]
    labels: Int[Tensor, " n"]
    ids: Int[Tensor, " n"]
    positions: Int[Tensor, " n"]

    def where(self, chosen: Bool[Tensor, " n"]) -> "Rows":
        """Some of the rows."""
        return Rows(*(of_all[chosen] for of_all in vars(self).values()))


def is_map(features: Tensor, dim: int) -> bool:
    """Whether the features are a channel-first map `(n d h w)`; else they are `(... d)`.

    A four-dimensional tensor that fits both readings is a map.
    """
    return features.ndim == 4 and features.shape[1] == dim


def channels_last(features: object, dim: int) -> Float[Tensor, "... d"]:
    """The features with their dimension last: maps `(n d h w)` become `(n h w d)`."""
    if not isinstance(features, Tensor):
        raise InvalidFeatures(
            f"Features are {type(features).__name__}; they must be a torch.Tensor "
            "(torch.as_tensor makes one)."
        )
    if not features.is_floating_point():
        raise InvalidFeatures(f"Features are {features.dtype}; they must be floating point.")
    if is_map(features, dim):
        return features.movedim(1, -1)
    if features.ndim < 2 or features.shape[-1] != dim:
        raise InvalidFeatures(
            f"Features have shape {tuple(features.shape)}, but the head was made for dim={dim}: "
            f"give rows (n, {dim}), also with more axes before, or a channel-first map "
            f"(n, {dim}, h, w)."
        )
    return features


def labelled_rows(
    features: object,
    labels: object,
    ids: object,
    *,
    dim: int,
    classes: int,
    ignore_index: int,
) -> Rows:
    """Rows that carry a class, from features `(... d)` or `(n d h w)` with a label for each row.

    Ids are one for each row, or for a map one for each image. Rows labelled `ignore_index` are
    left out before anything else is asked of them.
    """
    last = channels_last(features, dim)
    shape = last.shape[:-1]
    numbers = _whole_numbers(labels, "Labels")
    if numbers.shape != shape:
        raise InvalidLabels(f"Labels have shape {tuple(numbers.shape)}; expected {tuple(shape)}.")
    images = torch.full_like(numbers, -1) if ids is None else _whole_numbers(ids, "Ids")
    if images.shape == shape[:1]:
        images = images.reshape(-1, *[1] * (len(shape) - 1)).expand(shape)
    if images.shape != shape:
        raise InvalidLabels(
            f"Ids have shape {tuple(images.shape)}; expected {tuple(shape)}, or ({shape[0]},) for "
            "one id an image."
        )
    inside = shape[1:].numel() if ids is not None else shape.numel()
    positions = torch.arange(shape.numel(), device=numbers.device) % max(inside, 1)
    rows = Rows(last.reshape(-1, dim), numbers.flatten(), images.flatten(), positions)
    counted = rows.labels != ignore_index
    if not counted.all():
        rows = rows.where(counted)
    _require_range(rows.labels, classes, ignore_index)
    require_finite(rows.features)
    return rows


def require_finite(features: Float[Tensor, "n d"]) -> None:
    """Refuses NaN and infinite values, naming the rows that hold them."""
    finite = features.isfinite()
    if not finite.all():
        rows = (~finite.all(dim=1)).nonzero()[:, 0]
        values = (~finite).sum().item()
        raise NonFiniteFeatures(
            f"{values} feature values are NaN or infinite, in {len(rows)} of {len(features)} rows: "
            f"{_some(rows)}. Nothing was changed; look for a diverged loss or a corrupt input."
        )


def require_settings(*settings: tuple[str, object, bool, str]) -> None:
    """Refuses the first setting that is not allowed: `(name, value, allowed, what is sensible)`."""
    for name, value, allowed, sensible in settings:
        if not allowed:
            raise InvalidSetting(f"{name} is {value}; it must be {sensible}.")


def require_anchors(ids: object, similarity: Tensor, valid: Bool[Tensor, "c k"]) -> None:
    """Refuses anchors of another shape, of places that are not in use, or twice in a class."""
    ids = _whole_numbers(ids, "Ids")
    if ids.shape != valid.shape or similarity.shape != valid.shape:
        raise InvalidLabels(
            f"Anchors have shapes {tuple(ids.shape)} and {tuple(similarity.shape)}; each of the "
            f"{tuple(valid.shape)} sub-centroids needs an image, or -1."
        )
    tied = ids >= 0
    if not tied.any():
        raise InvalidLabels("No sub-centroid has an image; give at least one.")
    if (tied & ~valid.to(tied.device)).any():
        raise InvalidLabels("Anchors are given for sub-centroids that their class has not.")
    in_order = ids.sort(dim=1).values
    twice = ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)).nonzero()
    if len(twice):
        raise InvalidLabels(
            f"{len(twice)} images are given to two sub-centroids of a class, in classes "
            f"{_some(twice[:, 0].unique())}; no image may stand for two."
        )


def numbers_per_class(subcentroids: SupportsInt | Iterable[int], classes: int) -> list[int]:
    """How many sub-centroids each class has, from one number for all or one for each."""
    if isinstance(subcentroids, Iterable):
        numbers = [int(number) for number in subcentroids]
    else:
        numbers = [int(subcentroids)] * classes
    if len(numbers) != classes:
        raise InvalidSetting(
            f"subcentroids has {len(numbers)} numbers for {classes} classes; give one number for "
            "all classes or one for each."
        )
    if min(numbers) < 1:
        raise InvalidSetting(
            f"subcentroids asks for {min(numbers)} of a class; each class needs at least 1."
        )
    return numbers


def _whole_numbers(values: object, what: str) -> Int[Tensor, "..."]:
    if not isinstance(values, Tensor):
        raise InvalidLabels(
            f"{what} are {type(values).__name__}; they must be a torch.Tensor "
            "(torch.as_tensor makes one)."
        )
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise InvalidLabels(
            f"{what} are {values.dtype}; they must be whole numbers (call .long() if they are)."
        )
    return values.long()


def _require_range(labels: Int[Tensor, " n"], classes: int, ignore_index: int) -> None:
    if not len(labels):
        return
    least, most = labels.aminmax()
    if least < 0 or most >= classes:
        wrong = labels[(labels < 0) | (labels >= classes)]
        raise InvalidLabels(
            f"{len(wrong)} labels are out of range: {_some(wrong.unique())}. Allowed are 0 to "
            f"{classes - 1}, and {ignore_index} (ignore_index) for rows to leave out."
        )


def _some(values: Int[Tensor, " n"], most: int = 10) -> str:
    listed = ", ".join(str(value) for value in values[:most].tolist())
    return listed + (", ..." if len(values) > most else "")
