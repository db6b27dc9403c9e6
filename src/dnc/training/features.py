"""Features of images as a frozen network gives them, computed once and kept."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dnc.centroids.exchange import World
from dnc.data import BadFile, Images, Preprocessing, loader
from dnc.errors import InvalidCheckpoint, InvalidData
from dnc.files import whole_file
from dnc.models import Classifier
from dnc.training.state import read_tensors, write_tensors

# Training images of a finished model that are looked at; their features must fit into memory.
MOST_IMAGES = 200_000


def most_per_class(classes: int) -> int:
    """How many images of each class are looked at, for so many classes."""
    return -(-MOST_IMAGES // classes)


@dataclass(frozen=True)
class Features:
    """Features of images as a frozen network gives them.

    Attributes:
        rows: as the model gives them, centred if it centres them.
        labels: class of each.
        ids: which image each is of.
        bad_files: images that could not be read.
    """

    rows: Float[Tensor, "n d"]
    labels: Int[Tensor, " n"]
    ids: Int[Tensor, " n"]
    bad_files: tuple[BadFile, ...]

    @classmethod
    def joined(cls, parts: Sequence["Features"]) -> "Features":
        """The features of all parts; the files that could not be read are known to the last."""
        return cls(
            torch.cat([part.rows for part in parts]),
            torch.cat([part.labels for part in parts]),
            torch.cat([part.ids for part in parts]),
            parts[-1].bad_files,
        )


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; then each module is in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@torch.no_grad()
def features_of(
    model: Classifier,
    images: Images,
    preprocessing: Preprocessing,
    *,
    cache: Path | None,
    batch_size: int = 32,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Features:
    """Features of all images in evaluation mode, from the cache if they were computed before.

    `on_progress` is told how many images are done, of how many.
    """
    file = None if cache is None else cache / f"{_key(model, images, preprocessing)}.safetensors"
    if file is not None and file.is_file():
        found = _from_cache(file)
        if found is not None:
            return found
    parts, done = [], 0
    model.eval()
    for part in feature_batches(
        model, images, preprocessing, batch_size=batch_size, workers=workers
    ):
        parts.append(part)
        done += len(part.labels)
        if on_progress is not None:
            on_progress(done, len(images))
    if not done:
        raise InvalidData(f"None of the {len(images)} images in {images.root} can be read.")
    made = Features.joined(parts)
    if file is not None and not made.bad_files:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as unfinished:
            tensors = {"rows": made.rows, "labels": made.labels, "ids": made.ids}
            write_tensors(tensors, unfinished)
    return made


@torch.no_grad()
def feature_batches(
    model: Classifier,
    images: Images,
    preprocessing: Preprocessing,
    *,
    batch_size: int = 32,
    workers: int | None = None,
    divided: bool = False,
) -> Iterator[Features]:
    """Features of images in the mode that the model is in, a batch at a time, in main memory.

    `divided` among the processes of a run, each sees its share of the images. The files that could
    not be read so far come with each batch.
    """
    world = World.current() if divided else World(0, 1)
    device = next(model.parameters()).device
    batches = loader(
        images,
        preprocessing,
        batch_size=batch_size,
        workers=workers,
        rank=world.rank,
        world=world.size,
    )
    for batch in batches:
        rows = torch.zeros(0, model.dim)  # of a batch without a single image that can be read
        if len(batch.labels):
            rows = model.features(batch.images.to(device)).float().cpu()
        yield Features(rows, batch.labels, batch.ids, batches.bad_files)


def _from_cache(file: Path) -> Features | None:
    """Features of an earlier sitting; None if the file is damaged, which only costs time."""
    try:
        tensors = read_tensors(file)
        return Features(tensors["rows"], tensors["labels"], tensors["ids"], ())
    except (InvalidCheckpoint, KeyError):
        return None


def _key(model: Classifier, images: Images, preprocessing: Preprocessing) -> str:
    """A name for the features that changes with the images, the network and its input."""
    digest = hashlib.sha256(images.fingerprint().encode())
    digest.update(repr((sorted(preprocessing.to_dict().items()), len(images))).encode())
    digest.update(images.ids.tobytes())
    for name, value in sorted(model.state_dict().items()):
        if not name.startswith("head."):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:32]
