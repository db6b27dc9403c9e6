"""Small trained models for the tests of what is kept of them."""

from collections.abc import Sequence

import torch

from dnc.data import Preprocessing
from dnc.models import Centring, HeadSettings, Kind, classifier
from dnc.recognition import Network, Recognizer

CLASSES = ("Äpfel", "two words", "犬")
NETWORK = "resnet20-cifar"
PREPROCESSING = Preprocessing(32, 36, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def small_recognizer(
    *,
    kind: Kind = "dnc",
    subcentroids: int | tuple[int, ...] = 2,
    projection: int | None = None,
    centring: Centring = "none",
    classes: Sequence[str] = CLASSES,
    memory_rows: int = 0,
    seed: int = 0,
) -> Recognizer:
    """A recognizer whose sub-centroids have absorbed random images."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model, info = classifier(
        NETWORK,
        len(classes),
        kind=kind,
        head=HeadSettings(subcentroids=subcentroids, memory_rows=memory_rows, temperature=0.07),
        projection=projection,
        centring=centring,
        generator=generator,
    )
    for _ in range(2):
        images = torch.randn(12, 3, 32, 32, generator=generator)
        rows = model.features(images).detach()
        if model.is_dnc:
            labels = torch.arange(12) % len(classes)
            model.head.absorb(rows, labels)
    network = Network(NETWORK, info.input_size, projection, centring)
    return Recognizer(model.eval(), network, tuple(classes), PREPROCESSING, {"about": "a test"})
