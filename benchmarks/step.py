"""What the head adds to a training step and to inference, beside the softmax layer it replaces.

Two networks in one run: ResNet-20 on 32x32 images, and EfficientNet-Lite0 of timm on 128x128. On a
noisy machine two whole steps differ by more than the head adds, so what it adds is also measured by
itself: the head's own forward and backward pass less the linear layer's, and `absorb`.

Run `python -m benchmarks.step`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.measure import arguments, report, seconds_in_turns
from dnc import SubCentroidHead
from dnc.models import backbone


@dataclass(frozen=True)
class Case:
    """A network, its images, and a memory of a hundred batches."""

    network: str
    size: int
    classes: int
    batch: int

    @property
    def memory_rows(self) -> int:
        """Rows of a hundred batches."""
        return 100 * self.batch


CASES = (
    Case("resnet20-cifar", size=32, classes=10, batch=128),
    Case("efficientnet-lite0", size=128, classes=37, batch=32),
)


def training_step(
    network: nn.Module,
    classifier: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Tensor,
    labels: Tensor,
) -> Tensor:
    """One step of stochastic gradient descent; the features that it was taken with."""
    features = network(batch)
    loss = nn.functional.cross_entropy(classifier(features), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return features.detach()


def measured(case: Case, repeats: int) -> dict[str, float]:
    """Ratios of one case."""
    torch.manual_seed(0)
    network, info = backbone(case.network)
    head = SubCentroidHead(info.dim, case.classes, subcentroids=4, memory_rows=case.memory_rows)
    linear = nn.Linear(info.dim, case.classes)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(case.batch, 3, case.size, case.size)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.arange(case.batch) % case.classes
    rows = torch.arange(case.memory_rows + case.classes)
    for batch in rows.split(case.batch):  # fills the memory
        head.absorb(torch.randn(len(batch), info.dim), batch % case.classes)
    features = training_step(network, head, optimizer, images, labels)

    def passes(classifier: nn.Module) -> None:
        rows = features.clone().requires_grad_()
        nn.functional.cross_entropy(classifier(rows), labels).backward()

    steps = seconds_in_turns(
        {
            "softmax step": lambda: training_step(network, linear, optimizer, images, labels),
            "dnc step": lambda: head.absorb(
                training_step(network, head, optimizer, images, labels), labels
            ),
            "absorb": lambda: head.absorb(features, labels),
            "head": lambda: passes(head),
            "linear": lambda: passes(linear),
        },
        repeats,
    )
    network.eval()
    head.eval()
    with torch.no_grad():
        inference = seconds_in_turns(
            {
                "network": lambda: network(images),
                "head": lambda: head(features),
                "linear": lambda: linear(features),
            },
            repeats,
        )
    softmax = inference["network"] + inference["linear"]
    added = steps["absorb"] + steps["head"] - steps["linear"]
    return {
        "absorb_over_step": steps["absorb"] / steps["softmax step"],
        "step_with_what_is_added": 1 + added / steps["softmax step"],
        "dnc_step_over_softmax_step": steps["dnc step"] / steps["softmax step"],
        "inference_over_softmax": 1 + (inference["head"] - inference["linear"]) / softmax,
    }


def main() -> None:
    """Prints a table for each network."""
    options = arguments(__doc__)
    for case in CASES:
        ratios = measured(case, options.repeats)
        path = options.json and options.json.with_stem(f"{options.json.stem}-{case.network}")
        report(
            f"{case.network}, {case.size} px, batch {case.batch}, c {case.classes}, k 4, "
            f"memory {case.memory_rows:,} rows",
            [
                ("", "measured", "aim"),
                ("absorb / softmax step", f"{100 * ratios['absorb_over_step']:.2f} %", ""),
                ("DNC step / softmax step, by parts", _ratio(ratios, "step_with"), "at most 1.02"),
                ("DNC step / softmax step, as a whole", _ratio(ratios, "dnc_step"), "at most 1.02"),
                ("DNC inference / softmax inference", _ratio(ratios, "inference"), "at most 1.01"),
            ],
            path,
            **ratios,
        )


def _ratio(ratios: dict[str, float], beginning: str) -> str:
    return next(f"{value:.4f}" for name, value in ratios.items() if name.startswith(beginning))


if __name__ == "__main__":
    main()
