"""What sub-centroids add to a segmenter at ADE20K's shape, beside the 1x1 convolution they replace.

DeepLabV3 with 150 classes, K 10, images of 512x512 at output stride 8 (64x64 positions), a batch of
two. What is small beside the noise of whole steps is also measured by itself: the head's passes
less the linear layer's, and `absorb`. Decisions are timed on maps as a trained network gives them,
every position near a case of its class: a network that knows nothing has no clear decisions.

Run `python -m benchmarks.segmentation`; `--network resnet50` and others are quicker.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.measure import peak_extra_bytes, report, seconds_in_turns
from dnc.models import DecoderSettings, HeadSettings, Segmenter, segmenter, viewed_features

CLASSES, K, SIDE, BATCH = 150, 10, 512, 2


def made(network: str, kind: str) -> Segmenter:
    """A segmenter of either kind."""
    torch.manual_seed(0)
    model, _ = segmenter(
        network,
        CLASSES,
        kind=kind,  # type: ignore[arg-type]
        decoder=DecoderSettings("deeplabv3", 256),
        head=HeadSettings(subcentroids=K, rows_per_class=2000),
        output_stride=8,
        image_size=SIDE,
    )
    return model.to(memory_format=torch.channels_last)


class Step:
    """A training step of a segmenter on one batch."""

    def __init__(self, model: Segmenter, images: Tensor, labels: Tensor) -> None:
        self.model, self.images, self.labels = model, images, labels
        parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(parameters, lr=0.001, momentum=0.9)
        self.positions = model.labels_of_positions(labels)

    def __call__(self) -> Tensor:
        """Takes the step; the features that it was taken with."""
        found = self.model.training_scores(self.images)
        self.optimizer.zero_grad(set_to_none=True)
        cross_entropy(found.scores, self.labels).backward()
        self.optimizer.step()
        features = found.features.detach()
        if self.model.is_dnc:
            self.model.head.absorb(features, self.positions)
        return features


def map_of_cases(model: Segmenter) -> Tensor:
    """A map of regions, in which every position is near one case of its region's class."""
    side = SIDE // model.stride
    place = torch.randint(CLASSES * K, (16, 16)).repeat_interleave(side // 16, 0)
    place = place.repeat_interleave(side // 16, 1)
    cases = nn.functional.normalize(torch.randn(CLASSES, K, model.dim), dim=2)
    model.head.centroids.copy_(cases)
    model.head.occupied.fill_(True)
    noise = torch.randn(side, side, model.dim) / model.dim**0.5
    return (cases.flatten(0, 1)[place] + 0.7 * noise).movedim(-1, 0)


def measured(network: str, repeats: int) -> dict[str, float]:
    """Ratios of steps, inference and memory."""
    models = {kind: made(network, kind) for kind in ("softmax", "dnc")}
    images = torch.randn(BATCH, 3, SIDE, SIDE).to(memory_format=torch.channels_last)
    # Regions of classes, as scenes have them: each image shows a dozen.
    coarse = torch.randint(CLASSES, (BATCH, 4, 4)).double()
    labels = nn.functional.interpolate(coarse[:, None], size=(SIDE, SIDE))[:, 0].long()
    steps = {kind: Step(model, images, labels) for kind, model in models.items()}
    features = {kind: step() for kind, step in steps.items()}
    dnc = models["dnc"]

    def passes(kind: str) -> None:
        rows = features[kind].clone().requires_grad_()
        cross_entropy(models[kind].pixel_scores(rows, images), labels).backward()

    taken = seconds_in_turns(
        {
            "softmax step": steps["softmax"],
            "dnc step": steps["dnc"],
            "absorb": lambda: dnc.head.absorb(features["dnc"], steps["dnc"].positions),
            "dnc head": lambda: passes("dnc"),
            "softmax head": lambda: passes("softmax"),
        },
        repeats,
    )
    peaks = {kind: peak_extra_bytes(step) for kind, step in steps.items()}
    for model in models.values():
        model.eval()

    network_alone = seconds_in_turns(
        {"features": lambda: viewed_features(models["softmax"], images[:1])}, repeats
    )
    seen = map_of_cases(dnc)
    decided = seconds_in_turns(
        {
            kind: lambda model=model: model.labels(seen, (SIDE, SIDE))
            for kind, model in models.items()
        },
        repeats,
    )
    softmax_inference = network_alone["features"] + decided["softmax"]
    added = taken["absorb"] + taken["dnc head"] - taken["softmax head"]
    return {
        "seconds_of_a_softmax_step": taken["softmax step"],
        "dnc_step_over_softmax_step": taken["dnc step"] / taken["softmax step"],
        "step_with_what_is_added": 1 + added / taken["softmax step"],
        "absorb_over_step": taken["absorb"] / taken["softmax step"],
        "inference_with_what_is_added": 1
        + (decided["dnc"] - decided["softmax"]) / softmax_inference,
        "peak_memory_over_softmax": peaks["dnc"] / peaks["softmax"],
        "peak_bytes_of_softmax": peaks["softmax"],
    }


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="turns that are timed (default 5)")
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's own choice)")
    parser.add_argument("--network", default="resnet101", help="any network (default resnet101)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    found = measured(options.network, options.repeats)
    report(
        f"DeepLabV3 on {options.network}, {SIDE} px, batch {BATCH}, c {CLASSES}, k {K}; a softmax "
        f"step takes {found['seconds_of_a_softmax_step']:.1f} s and "
        f"{found['peak_bytes_of_softmax'] / 2**30:.2f} GB",
        [
            ("", "measured", "aim"),
            ("absorb / softmax step", f"{100 * found['absorb_over_step']:.2f} %", ""),
            _row(found, "DNC step / softmax step, by parts", "step_with", "1.10"),
            _row(found, "DNC step / softmax step, as a whole", "dnc_step", "1.10"),
            _row(found, "DNC inference / softmax, by parts", "inference_with", "1.05"),
            _row(found, "peak memory of a step / softmax", "peak_memory", "1.25"),
        ],
        options.json,
        **found,
    )


def _row(found: dict[str, float], name: str, beginning: str, aim: str) -> tuple[str, str, str]:
    value = next(value for key, value in found.items() if key.startswith(beginning))
    return name, f"{value:.4f}", f"at most {aim}"


if __name__ == "__main__":
    main()
