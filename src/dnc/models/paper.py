"""The paper's numbers of parameters, to compare networks with."""

import csv
from dataclasses import dataclass
from importlib import resources

# What the paper calls a network, and what it is called here: on small images, and on large ones.
NETWORKS = {
    ("ResNet18", True): "resnet18-cifar",
    ("ResNet50", True): "resnet50-cifar",
    ("ResNet101", True): "resnet101-cifar",
    ("ResNet50", False): "resnet50",
    ("ResNet101", False): "resnet101",
    ("Swin-T", False): "swin-t",
    ("Swin-S", False): "swin-s",
    ("Swin-B", False): "swin-b",
    ("MobileNet-V2", False): "mobilenet-v2",
}
CLASSES = {"CIFAR-10": 10, "CIFAR-100": 100, "ImageNet": 1000}


@dataclass(frozen=True)
class PaperParameters:
    """A number of parameters as the paper prints it.

    Attributes:
        table: where it stands; A for the appendix.
        dataset: the data set.
        method: "dnc", "softmax", or "dnc-anchored" for sub-centroids that are training images.
        backbone: what the paper calls the network.
        millions: the number, in millions, with two decimals.
        name: what the network is called here.
        classes: number of classes of the data set.

    """

    table: str
    dataset: str
    method: str
    backbone: str
    millions: float
    name: str
    classes: int


def paper_parameters() -> list[PaperParameters]:
    """Every number of parameters of a classifier in the paper's tables."""
    text = resources.files("dnc.models").joinpath("paper_parameters.csv").read_text("utf-8")
    return [
        PaperParameters(
            table=row["table"],
            dataset=row["dataset"],
            method=row["method"],
            backbone=row["backbone"],
            millions=float(row["params_millions"]),
            name=NETWORKS[row["backbone"], row["dataset"].startswith("CIFAR")],
            classes=CLASSES[row["dataset"]],
        )
        for row in csv.DictReader(text.splitlines())
    ]
