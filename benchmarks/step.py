"""What the head adds to a training step and to inference, beside a ResNet-20 on 32x32 images.

Run `python -m benchmarks.step`.
"""

import torch
from torch import Tensor, nn

from benchmarks.measure import arguments, report, seconds_in_turns
from dnc import SubCentroidHead
from dnc.models import backbone

CLASSES, DIM, BATCH, ROWS = 10, 64, 128, 12_800


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


def main() -> None:
    """Prints the table."""
    options = arguments(__doc__)
    torch.manual_seed(0)
    network, _ = backbone("resnet20-cifar")
    head = SubCentroidHead(DIM, CLASSES, subcentroids=4, memory_rows=ROWS)
    linear = nn.Linear(DIM, CLASSES)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    images, labels = torch.randn(BATCH, 3, 32, 32), torch.arange(BATCH) % CLASSES
    assert head.memory is not None
    while not head.memory.filled.all():
        head.absorb(torch.randn(BATCH, DIM), labels)
    features = training_step(network, head, optimizer, images, labels)

    def softmax_step() -> None:
        training_step(network, linear, optimizer, images, labels)

    def dnc_step() -> None:
        head.absorb(training_step(network, head, optimizer, images, labels), labels)

    steps = seconds_in_turns(
        {
            "softmax step": softmax_step,
            "dnc step": dnc_step,
            "absorb": lambda: head.absorb(features, labels),
        },
        options.repeats,
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
            options.repeats,
        )
    absorb = steps["absorb"] / steps["softmax step"]
    whole = steps["dnc step"] / steps["softmax step"]
    over = (inference["head"] - inference["linear"]) / (inference["network"] + inference["linear"])
    report(
        f"A step of ResNet-20: c {CLASSES}, k 4, d {DIM}, batch {BATCH}, memory {ROWS:,} rows",
        [
            ("", "measured", "aim"),
            ("absorb / softmax step", f"{100 * absorb:.2f} %", "at most 1 %"),
            ("head over linear layer / inference", f"{100 * over:.2f} %", "at most 1 %"),
            ("dnc step / softmax step", f"{whole:.3f}", ""),
            ("absorb", f"{1000 * steps['absorb']:.2f} ms", ""),
            ("softmax step", f"{1000 * steps['softmax step']:.0f} ms", ""),
        ],
        options.json,
        absorb_over_step=absorb,
        head_over_inference=over,
        dnc_step_over_softmax_step=whole,
    )


if __name__ == "__main__":
    main()
