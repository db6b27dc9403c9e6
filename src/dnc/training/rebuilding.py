"""What a checkpoint says of its model, and the model built again from that."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from dnc.centroids import SubCentroidHead
from dnc.data.settings import MAX_SIZE
from dnc.errors import InvalidCheckpoint
from dnc.models import Classifier, HeadSettings, backbone, classifier
from dnc.recognition import Network

# What a network computes for itself and keeps in no file (masks of attention, say) is small beside
# its weights, unless it is asked for a size that its weights were never trained at.
MOST_TIMES_THE_FILE, AND_BYTES = 4, 2**28


class Description(BaseModel):
    """What `model.json` says; anything else in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    task: Literal["classification"] = "classification"
    classifier: Literal["dnc", "softmax"]
    network: Network
    head: HeadSettings
    classes: tuple[str, ...] = Field(min_length=1, max_length=10**6)
    preprocessing: dict[str, Any]
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


@dataclass(frozen=True)
class EmptyNetwork:
    """A network without its weights: the shapes of what it keeps, and what it takes in memory."""

    shapes: Mapping[str, tuple[int, ...]]
    dim: int
    bytes: int


def rebuilt(
    described: Description, shapes: Mapping[str, tuple[int, ...]], folder: Path, *, file_bytes: int
) -> Classifier:
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
        empty = empty_network(network.name, network.size)
        _require_fit(shapes, _expected(described, empty), folder)
        if empty.bytes > MOST_TIMES_THE_FILE * file_bytes + AND_BYTES:
            raise InvalidCheckpoint(
                f"{folder} asks for {network.name} at {network.size} pixels, which takes "
                f"{empty.bytes:,} bytes where its weights are {file_bytes:,}."
            )
        model, _ = classifier(
            network.name,
            len(described.classes),
            kind=described.classifier,
            head=HeadSettings(**{**asdict(described.head), "memory_rows": 0}),
            projection=network.projection,
            centring=network.centring,
            image_size=network.size,
        )
        return model
    except InvalidCheckpoint:
        raise
    except Exception as error:  # whatever a network raises that is asked for what it cannot be
        raise InvalidCheckpoint(
            f"{folder} describes no model that can be built: {str(error)[:500]}"
        ) from error


@lru_cache(maxsize=32)
def empty_network(name: str, size: int) -> EmptyNetwork:
    """A network at an image size, made without memory for its weights."""
    with torch.device("meta"):
        network, info = backbone(name, image_size=size)
    kept = [*network.parameters(), *network.buffers()]
    return EmptyNetwork(
        shapes={key: tuple(value.shape) for key, value in network.state_dict().items()},
        dim=info.dim,
        bytes=sum(value.numel() * value.element_size() for value in kept),
    )


def fill_(model: Classifier, tensors: Mapping[str, Tensor], folder: Path) -> None:
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
    expected = {f"backbone.{name}": shape for name, shape in empty.shapes.items()}
    if projection is not None:
        expected["projection.weight"] = (dim, empty.dim)
    if described.network.centring == "whitened":
        expected["centring.matrix"] = (dim, dim)
    if described.classifier == "softmax":
        expected["head.weight"] = (classes, dim)
    else:
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
