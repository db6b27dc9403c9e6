"""Models without a network and images without files, for reports of any size."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from dnc.centroids import SubCentroidHead, normalised
from dnc.data import Images
from dnc.models import Classifier
from dnc.recognition import Recognizer
from dnc.report.looking import Looked
from dnc.training.casebase import case_base
from dnc.training.features import Features
from tests.training.models import PREPROCESSING

DIM = 16


def made_images(classes: tuple[str, ...], each: int, *, seed: int, names=None) -> Images:
    rng = np.random.default_rng(seed)
    n = len(classes) * each
    return Images(
        root=Path("drawn"),
        names=tuple(names or (f"{seed}/{i}.png" for i in range(n))),
        labels=np.repeat(np.arange(len(classes)), each),
        ids=np.arange(n) + 1000 * seed,
        classes=classes,
        pixels=rng.integers(0, 255, (n, 8, 8, 3), dtype=np.uint8),
    )


def made_features(images: Images, *, noise: float, seed: int, dim: int = DIM) -> Features:
    """Two heaps for each class, in the same directions whatever the seed."""
    directions = torch.Generator().manual_seed(1)
    centres = torch.randn(len(images.classes), 2, dim, generator=directions)
    generator = torch.Generator().manual_seed(seed)
    heap = torch.randint(2, (len(images),), generator=generator)
    labels = torch.from_numpy(images.labels)
    scatter = noise * torch.randn(len(images), dim, generator=generator)
    rows = normalised(centres)[labels, heap] + scatter
    return Features(rows, labels, torch.from_numpy(images.ids), ())


def made_recognizer(images: Images, features: Features, *, k: int = 2, seed: int = 0) -> Recognizer:
    generator = torch.Generator().manual_seed(seed)
    dim = features.rows.shape[1]
    head = SubCentroidHead(
        dim, len(images.classes), subcentroids=k, momentum=0.2, generator=generator
    )
    head.start_from(features.rows, features.labels)
    for _ in range(5):
        head.absorb(features.rows, features.labels, features.ids)
    model = Classifier(nn.Identity(), head).eval()
    plain = Recognizer(model, None, images.classes, PREPROCESSING, {})
    cases = case_base(plain, images, features, "folder")
    return Recognizer(model, None, images.classes, PREPROCESSING, {}, cases)


def made_looked(recognizer: Recognizer, part: str, images: Images, features: Features) -> Looked:
    numbers = torch.arange(len(images.classes))
    return Looked.of(recognizer.model.head, part, images, features, numbers)
