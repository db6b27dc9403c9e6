"""`dnc demo`: the whole idea on handwritten digits, in seconds and without a download."""

import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from torch import Tensor, nn

from dnc.centroids import SubCentroidHead, momentum_at, normalised, similarities
from dnc.estimator import NearestSubCentroids
from dnc.explanation.anchors import anchors
from dnc.explanation.pictures import Case, cases_figure, decision_figure, save
from dnc.files import whole_file

DIM, CLASSES, BATCH = 64, 10, 128


@dataclass(frozen=True)
class Split:
    """Digits of 8x8 pixels in 0..1, split into training and test images."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of the training images."""
        return len(self.train_images) // BATCH


@dataclass(frozen=True)
class Result:
    """One method on the test images: what it reached, what it took and what it has to keep."""

    method: str
    accuracy: float
    seconds: float
    stored_vectors: int


@dataclass(frozen=True)
class DemoReport:
    """What the demo found out, and the files that show it."""

    results: list[Result]
    test_images: int
    files: list[Path]


def run_demo(
    output: Path, *, seed: int, epochs: int, on_step: Callable[[str, int], None]
) -> DemoReport:
    """Trains, compares and draws; the same seed gives the same numbers and pictures.

    `on_step` is told after each training step which network it belonged to, and of how many steps.
    """
    output.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]), _one_thread():
        torch.manual_seed(seed)
        split = digits_split(seed)
        initial = new_network().state_dict()
        head = SubCentroidHead(DIM, CLASSES, subcentroids=4, memory_rows=1280)
        results = []
        _warm_up(split)
        for method, classifier, stored in (
            ("network + softmax layer", nn.Linear(DIM, CLASSES), CLASSES),
            ("network + sub-centroids (DNC)", head, CLASSES * 4),
        ):
            torch.manual_seed(seed)
            network = new_network()
            network.load_state_dict(initial)
            began = time.perf_counter()
            told = partial(on_step, method, epochs * split.steps_per_epoch)
            train(network, classifier, split, epochs=epochs, on_step=told)
            accuracy = accuracy_of(nn.Sequential(network, classifier), split)
            results.append(Result(method, accuracy, time.perf_counter() - began, stored))
        files = draw(network, head, split, output)
        results = results[::-1] + pixel_results(split)
    files.append(output / "results.json")
    content = {"seed": seed, "epochs": epochs, "results": [asdict(r) for r in results]}
    with whole_file(files[-1]) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n")
    return DemoReport(results, len(split.test_images), files)


def digits_split(seed: int) -> Split:
    """The digits that scikit-learn ships: three quarters to train, one quarter to test."""
    pixels, labels = load_digits(return_X_y=True)
    parts = train_test_split(pixels / 16, labels, random_state=seed, stratify=labels)
    train_pixels, test_pixels, train_labels, test_labels = map(torch.from_numpy, parts)
    return Split(
        train_images=train_pixels.float().view(-1, 1, 8, 8),
        train_labels=train_labels,
        test_images=test_pixels.float().view(-1, 1, 8, 8),
        test_labels=test_labels,
    )


def new_network() -> nn.Sequential:
    """A small convolutional network, images `(n 1 8 8)` to features `(n 64)`."""

    def convolution(inputs: int, outputs: int) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return [layer, nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *convolution(1, 32),
        *convolution(32, DIM),
        nn.MaxPool2d(2),
        *convolution(DIM, DIM),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def train(
    network: nn.Module,
    classifier: nn.Module,
    split: Split,
    *,
    epochs: int,
    on_step: Callable[[], None],
) -> None:
    """Trains the network under either classifier; a head absorbs the batch after each step."""
    model = nn.Sequential(network, classifier).train()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = epochs * split.steps_per_epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)
    for epoch in range(epochs):
        order = torch.randperm(len(split.train_images))
        batches = order.split(BATCH)[: split.steps_per_epoch]
        for step, batch in enumerate(batches, start=epoch * split.steps_per_epoch):
            labels = split.train_labels[batch]
            features = network(split.train_images[batch])
            loss = nn.functional.cross_entropy(classifier(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if isinstance(classifier, SubCentroidHead):
                classifier.momentum = momentum_at(step, steps=steps, classes=CLASSES, rows=BATCH)
                classifier.absorb(features.detach(), labels, ids=batch)
            on_step()


@torch.no_grad()
def accuracy_of(model: nn.Module, split: Split) -> float:
    """Share of the test images that the model gets right."""
    predicted = model.eval()(split.test_images).argmax(dim=1)
    return float((predicted == split.test_labels).double().mean())


def pixel_results(split: Split) -> list[Result]:
    """Methods without a network, on the pixels themselves."""
    train_rows, test_rows = (i.flatten(1).numpy() for i in (split.train_images, split.test_images))
    train_labels, test_labels = split.train_labels.numpy(), split.test_labels.numpy()
    results = []
    for method, model, stored in (
        ("pixels + NearestSubCentroids", NearestSubCentroids(4), CLASSES * 4),
        ("pixels + NearestCentroid", NearestCentroid(), CLASSES),
        ("pixels + 5 nearest neighbours", KNeighborsClassifier(5), len(train_rows)),
    ):
        began = time.perf_counter()
        with warnings.catch_warnings():  # NearestCentroid minds pixels that are always white
            warnings.simplefilter("ignore", UserWarning)
            model.fit(train_rows, train_labels)
        accuracy = float(model.score(test_rows, test_labels))
        results.append(Result(method, accuracy, time.perf_counter() - began, stored))
    return results


@torch.no_grad()
def draw(network: nn.Module, head: SubCentroidHead, split: Split, output: Path) -> list[Path]:
    """The training images behind the sub-centroids, and the closest call among right decisions."""
    train_features = network.eval()(split.train_images)
    test_features = network(split.test_images)
    stand_ins = anchors(head, train_features, split.train_labels)

    def case(label: int, subcentroid: int, value: Tensor) -> Case:
        image = split.train_images[stand_ins.row[label, subcentroid], 0]
        return Case(image.numpy(), str(label), float(value))

    gallery = [
        [case(c, int(k), stand_ins.similarity[c, k]) for k in head.occupied[c].nonzero()]
        for c in range(CLASSES)
    ]
    decision = head.decide(test_features)
    right = decision.label == split.test_labels
    query = int(decision.margin.masked_fill(~right, torch.inf).argmin())
    to_query = similarities(normalised(test_features[query : query + 1]), head.centroids)[0]
    nearest = to_query.masked_fill(~head.occupied, -torch.inf).max(dim=1)
    best = nearest.values.topk(4).indices.tolist()
    margin = float(decision.margin[query])
    pictures = {
        "cases.png": cases_figure(
            gallery,
            title="Training images that stand for the four sub-centroids of each digit "
            "(below: their cosine to it)",
        ),
        "decision.png": decision_figure(
            split.test_images[query, 0].numpy(),
            [case(c, int(nearest.indices[c]), nearest.values[c]) for c in best],
            title=f"Read as {best[0]}: nearer to a case of {best[0]} than to any of {best[1]}, "
            f"by {margin:.3f} of cosine",
        ),
    }
    for name, figure in pictures.items():
        save(figure, output / name)
    return [output / name for name in pictures]


def _warm_up(split: Split) -> None:
    """One step that is not counted, or the first method would pay for what torch loads late."""
    network = new_network()
    network(split.train_images[:BATCH]).sum().backward()
    torch.optim.AdamW(network.parameters()).step()


@contextmanager
def _one_thread() -> Iterator[None]:
    """For so small a network the fastest on a busy machine; and sums do not depend on the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
