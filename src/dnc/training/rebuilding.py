"""What a checkpoint says of its model, and the model built again from that."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from dnc.centroids import SubCentroidHead
from dnc.data.settings import MAX_SIZE
from dnc.errors import InvalidCheckpoint
from dnc.models import (
    Classifier,
    DecoderSettings,
    HeadSettings,
    Kind,
    Segmenter,
    backbone,
    classifier,
    segmenter,
)
from dnc.models.decoders import decoder
from dnc.models.feature_maps import map_info
from dnc.recognition import Network
from dnc.rivals import NeighbourHead

# What a network computes for itself and keeps in no file (masks of attention, say) is small beside
# its weights, unless it is asked for a size that its weights were never trained at.
Byte = Annotated[int, Field(ge=0, le=255)]
MOST_TIMES_THE_FILE, AND_BYTES = 4, 2**28


class SceneDescription(BaseModel):
    """What `model.json` says of a segmenter besides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decoder: DecoderSettings
    output_stride: Literal[8, 16, 32] | None
    colours: tuple[tuple[Byte, Byte, Byte], ...]
    window: Annotated[int, Field(ge=1, le=MAX_SIZE)] | None


class Description(BaseModel):
    """What `model.json` says; anything else in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    task: Literal["classification", "segmentation"] = "classification"
    classifier: Kind
    network: Network
    head: HeadSettings
    classes: tuple[str, ...] = Field(min_length=1, max_length=10**6)
    preprocessing: dict[str, Any]
    scene: SceneDescription | None = None
    notes: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _network_is_a_plain_name(self) -> Self:
        # timm reads "hf-hub:..." and "local-dir:..." as places to fetch a network from.
        plain = self.network.name.replace(".", "").replace("-", "").replace("_", "")
        if not (plain.isascii() and plain.isalnum()):
            raise ValueError("network.name must be letters, digits, '.', '-' and '_'")
        if not 1 <= self.network.size <= MAX_SIZE:
            raise ValueError(f"network.size must be in 1..{MAX_SIZE}")
        return self

    @model_validator(mode="after")
    def _scene_is_of_the_task(self) -> Self:
        if (self.scene is not None) != (self.task == "segmentation"):
            raise ValueError(f"scene is for task segmentation; the task is {self.task}")
        if self.scene is not None and len(self.scene.colours) != len(self.classes):
            raise ValueError("scene.colours must be one for each class")
        return self


@dataclass(frozen=True)
class EmptyNetwork:
    """An embedding without its weights: shapes of what it keeps, and what it takes in memory."""

    shapes: Mapping[str, tuple[int, ...]]
    dim: int
    bytes: int


def rebuilt(
    described: Description, shapes: Mapping[str, tuple[int, ...]], folder: Path, *, file_bytes: int
) -> Classifier | Segmenter:
    """The model without its weights, once it is certain that the file holds as many as it takes.

    A description can ask for a network of any size; the file's own shapes are the bound.

    Args:
        described: what the checkpoint says of its model.
        shapes: of the tensors in its file of weights.
        folder: of the checkpoint, for errors.
        file_bytes: size of the file of weights.
    """
    network = described.network
    try:
        empty = empty_network(network, described.scene)
        _require_fit(shapes, _expected(described, empty), folder)
        if empty.bytes > MOST_TIMES_THE_FILE * file_bytes + AND_BYTES:
            raise InvalidCheckpoint(
                f"{folder} asks for {network.name} at {network.size} pixels, which takes "
                f"{empty.bytes:,} bytes where its weights are {file_bytes:,}."
            )
        return _built(described)
    except InvalidCheckpoint:
        raise
    except Exception as error:  # whatever a network raises that is asked for what it cannot be
        raise InvalidCheckpoint(
            f"{folder} describes no model that can be built: {str(error)[:500]}"
        ) from error


def _built(described: Description) -> Classifier | Segmenter:
    network, scene = described.network, described.scene
    head = replace(described.head, memory_rows=0)
    if scene is None:
        return classifier(
            network.name,
            len(described.classes),
            kind=described.classifier,
            head=head,
            projection=network.projection,
            centring=network.centring,
            image_size=network.size,
        )[0]
    return segmenter(
        network.name,
        len(described.classes),
        decoder=scene.decoder,
        kind=described.classifier,
        head=head,
        output_stride=scene.output_stride,
        projection=network.projection,
        centring=network.centring,
        image_size=network.size,
    )[0]


@lru_cache(maxsize=32)
def empty_network(network: Network, scene: SceneDescription | None) -> EmptyNetwork:
    """The embedding of a model, all but its head, made without memory for its weights."""
    with torch.device("meta"):
        made, info = backbone(
            network.name,
            image_size=network.size,
            output_stride=None if scene is None else scene.output_stride,
            any_size=scene is not None,
        )
        kept = [*made.parameters(), *made.buffers()]
        shapes = {f"backbone.{key}": value.shape for key, value in made.state_dict().items()}
        dim = info.dim
        if scene is not None:
            maps = map_info(made)
            if network.projection is not None:
                channels = (*maps.channels[:-1], network.projection)
                maps = replace(maps, channels=channels)
            behind, _ = decoder(scene.decoder, maps)
            kept += [*behind.parameters(), *behind.buffers()]
            shapes |= {f"decoder.{key}": value.shape for key, value in behind.state_dict().items()}
    return EmptyNetwork(
        shapes={key: tuple(shape) for key, shape in shapes.items()},
        dim=dim,
        bytes=sum(value.numel() * value.element_size() for value in kept),
    )


def fill_(model: Classifier | Segmenter, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Loads weights and sub-centroids into a model, if they fit in every respect."""
    state = model.state_dict()
    for name, tensor in tensors.items():
        wanted = state[name].dtype if name in state else tensor.dtype
        both_real = tensor.is_floating_point() and wanted.is_floating_point
        if tensor.dtype != wanted and not both_real:
            raise InvalidCheckpoint(f"{folder} has {name} as {tensor.dtype}; it must be {wanted}.")
    head = model.head
    valid = state["head.valid"].clone() if isinstance(head, SubCentroidHead) else torch.empty(0)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise InvalidCheckpoint(
            f"The weights in {folder} do not fit the model that it describes: {str(error)[:500]}"
        ) from error
    if isinstance(head, NeighbourHead) and not (
        ((head.labels >= 0) & (head.labels < head.classes)).all()
        and (head.ids[1:] > head.ids[:-1]).all()
        and head.bank.isfinite().all()
    ):
        raise InvalidCheckpoint(
            f"The training images in the bank of {folder} are of classes that it does not have, "
            "out of order, or no numbers."
        )
    if isinstance(head, SubCentroidHead) and not (
        torch.equal(head.valid, valid)
        and not (head.occupied & ~head.valid).any()
        and head.centroids.isfinite().all()
    ):
        raise InvalidCheckpoint(
            f"The sub-centroids in {folder} are not those that it describes, or are no numbers."
        )


def _expected(described: Description, empty: EmptyNetwork) -> dict[str, tuple[int, ...]]:
    """Shapes of all that can be large in a model."""
    projection, classes = described.network.projection, len(described.classes)
    dim = empty.dim if projection is None else projection
    expected = dict(empty.shapes)
    if projection is not None:
        expected["projection.weight"] = (dim, empty.dim)
    if described.scene is not None:
        dim = described.scene.decoder.dim
    if described.network.centring == "whitened":
        expected["centring.matrix"] = (dim, dim)
    match described.classifier:
        case "softmax":
            expected["head.weight"] = (classes, dim)
        case "deepncm":
            expected["head.means"] = (classes, dim)
        case "deepnca":
            expected["head.bank"] = (described.head.rival.bank_rows, dim)
        case "dnc":
            numbers = described.head.subcentroids
            k = numbers if isinstance(numbers, int) else max(numbers, default=0)
            expected["head.centroids"] = (classes, k, dim)
    return expected


def _require_fit(
    shapes: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], folder: Path
) -> None:
    for name, shape in expected.items():
        if shapes.get(name) != shape:
            came = f"of shape {shapes[name]}" if name in shapes else "missing"
            raise InvalidCheckpoint(
                f"The weights in {folder} do not fit its description: {name} is {came}, where "
                f"{shape} is asked for. Do the files belong together?"
            )
