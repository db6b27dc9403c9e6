"""Images that the loader in memory gives, beside those that a ResNet-20 training step takes.

Run `python -m benchmarks.loader`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.measure import arguments, report, seconds_in_turns
from benchmarks.step import training_step
from dnc.data import Augmentation, Batch, Images, Loader, Preprocessing, loader
from dnc.models import backbone

CLASSES, DIM, BATCH, SIDE, COUNT = 10, 64, 128, 32, 12_800
PREPROCESSING = Preprocessing(
    size=SIDE, resize=SIDE, mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26)
)
PADDED = Augmentation("padded")
RIVALS = {
    "padded crops and flips": PADDED,
    "evaluation": None,
    "resized crops": Augmentation("resized"),
    "with Mixup and CutMix": Augmentation("padded", mixup=0.2, cutmix=1.0),
    "with jitter and erasing": Augmentation("padded", colour_jitter=0.4, erasing=0.25),
    "with RandAugment": Augmentation("padded", randaugment=2),
}


def noise() -> Images:
    """Images of CIFAR's size."""
    rng = np.random.default_rng(0)
    return Images(
        root=Path("noise"),
        names=tuple(f"noise#{i}" for i in range(COUNT)),
        labels=rng.integers(0, CLASSES, COUNT),
        ids=np.arange(COUNT),
        classes=tuple(map(str, range(CLASSES))),
        pixels=rng.integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8),
    )


def endless(batches: Loader) -> Iterator[Batch]:
    """The batches of one epoch after another."""
    epoch = 0
    while True:
        batches.set_epoch(epoch)
        yield from batches
        epoch += 1


def main() -> None:
    """Prints the table."""
    options = arguments(__doc__)
    torch.manual_seed(0)
    network, _ = backbone("resnet20-cifar")
    linear = nn.Linear(DIM, CLASSES)
    parameters = [*network.parameters(), *linear.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)
    images = noise()

    def next_batch(augmentation: Augmentation | None) -> Callable[[], Batch]:
        batches = loader(
            images, PREPROCESSING, batch_size=BATCH, augmentation=augmentation, shuffle=True
        )
        return endless(batches).__next__

    batch = next_batch(PADDED)()

    def step() -> None:
        training_step(network, linear, optimizer, batch.images, batch.labels)

    pieces = {name: next_batch(augmentation) for name, augmentation in RIVALS.items()}
    seconds = seconds_in_turns({"step": step, **pieces}, options.repeats)
    ratios = {name: seconds["step"] / seconds[name] for name in RIVALS}
    rows = [
        (name, f"{ratio:.1f}", "at least 20" if RIVALS[name] == PADDED else "")
        for name, ratio in ratios.items()
    ]
    report(
        f"Images per second of the loader / of a ResNet-20 step: {SIDE} px, batch {BATCH}",
        [
            ("", "measured", "aim"),
            *rows,
            ("loader, padded", f"{BATCH / seconds['padded crops and flips']:,.0f} images/s", ""),
            ("step", f"{BATCH / seconds['step']:,.0f} images/s", ""),
        ],
        options.json,
        loader_over_step=ratios["padded crops and flips"],
        evaluation_over_step=ratios["evaluation"],
        resized_over_step=ratios["resized crops"],
        mixed_over_step=ratios["with Mixup and CutMix"],
        jittered_over_step=ratios["with jitter and erasing"],
        randaugment_over_step=ratios["with RandAugment"],
    )


if __name__ == "__main__":
    main()
