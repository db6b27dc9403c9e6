"""Small models with cases that can be shown, made on the spot."""

from dataclasses import replace
from pathlib import Path

import torch

from dnc.data import open_data
from dnc.models import HeadSettings, classifier
from dnc.recognition import Network, Recognizer
from dnc.training.anchoring import anchored
from dnc.training.casebase import with_cases
from dnc.training.features import features_of
from tests.training.models import PREPROCESSING


def drawn_recognizer(
    folder: Path, *, network: str = "resnet20-cifar", is_anchored: bool = True, seed: int = 0
) -> Recognizer:
    """A recognizer of the drawings in a folder, by a network that was never trained."""
    splits = open_data(folder, validation_share=0.0)
    torch.manual_seed(seed)
    model, info = classifier(
        network,
        len(splits.classes),
        head=HeadSettings(subcentroids=2, only_correct=False, momentum=0.5),
        image_size=32,
        generator=torch.Generator().manual_seed(seed),
    )
    preprocessing = PREPROCESSING
    if network == "test_vit":
        preprocessing = replace(PREPROCESSING, size=64, resize=64)
        model, info = classifier(network, len(splits.classes), head=HeadSettings(subcentroids=2))
    recognizer = Recognizer(
        model.eval(),
        Network(network, info.input_size),
        splits.classes,
        preprocessing,
        {"data": {"fingerprint": splits.train.fingerprint()}},
    )
    features = features_of(model, splits.train, preprocessing, cache=None, workers=0)
    for _ in range(5):
        model.head.absorb(features.rows, features.labels, features.ids)
    if is_anchored:
        return anchored(recognizer, splits, choice="nearest", whitening=False, workers=0)
    return with_cases(recognizer, splits, features)
