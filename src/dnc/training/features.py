"""Features of images as a frozen network gives them, computed once and kept."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dnc.data import BadFile, Images, Preprocessing, loader
from dnc.errors import InvalidCheckpoint, InvalidData
from dnc.files import whole_file
from dnc.models import Classifier
from dnc.training.state import read_tensors, write_tensors


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
    model.eval()
    device = next(model.parameters()).device
    rows, labels, ids = [], [], []
    batches = loader(images, preprocessing, batch_size=batch_size, workers=workers)
    done = 0
    for batch in batches:
        if len(batch.labels):
            rows.append(model.features(batch.images.to(device)).float().cpu())
            labels.append(batch.labels)
            ids.append(batch.ids)
        done += len(batch.labels)
        if on_progress is not None:
            on_progress(done, len(images))
    if not rows:
        raise InvalidData(f"None of the {len(images)} images in {images.root} can be read.")
    made = Features(torch.cat(rows), torch.cat(labels), torch.cat(ids), batches.bad_files)
    if file is not None and not made.bad_files:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as unfinished:
            tensors = {"rows": made.rows, "labels": made.labels, "ids": made.ids}
            write_tensors(tensors, unfinished)
    return made


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
