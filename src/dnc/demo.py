"""`dnc demo`: the whole idea on handwritten digits, in seconds and without a download."""

import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from torch import Tensor, nn

from dnc.centroids import SubCentroidHead, momentum_at
from dnc.data import Images, Preprocessing
from dnc.data.packed import all_digits
from dnc.data.preparation import normalised
from dnc.estimator import NearestSubCentroids
from dnc.explanation.anchors import anchors
from dnc.explanation.explanation import Explanation
from dnc.files import whole_file
from dnc.models import Classifier
from dnc.recognition import Recognizer
from dnc.report.findings import most_ambiguous
from dnc.report.looking import looked_at
from dnc.report.writing import Report
from dnc.training.casebase import case_base
from dnc.training.features import features_of, in_evaluation

DIM, CLASSES, BATCH = 64, 10, 128
# Of the epochs, at the end, in which each sub-centroid is the feature of a training image.
ANCHORED_SHARE = 0.1
EXPLAINED = 8
PREPROCESSING = Preprocessing(size=8, resize=8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


@dataclass(frozen=True)
class Split:
    """Digits of 8x8 pixels, split into training and test images."""

    train: Images
    test: Images

    @cached_property
    def train_images(self) -> Tensor:
        """The training images `(n 3 8 8)` in 0..1."""
        return _inputs(self.train)

    @cached_property
    def train_labels(self) -> Tensor:
        """Their classes."""
        return torch.from_numpy(self.train.labels)

    @cached_property
    def test_images(self) -> Tensor:
        """The test images `(n 3 8 8)` in 0..1."""
        return _inputs(self.test)

    @cached_property
    def test_labels(self) -> Tensor:
        """Their classes."""
        return torch.from_numpy(self.test.labels)

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

    @property
    def pages(self) -> list[Path]:
        """The files that are for people to look at first."""
        return [path for path in self.files if path.suffix == ".html"]


def run_demo(
    output: Path, *, seed: int, epochs: int, on_step: Callable[[str, int], None]
) -> DemoReport:
    """Trains, compares and explains; the same seed gives the same numbers and pages.

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
        files = show(network, head, split, output)
        results = results[::-1] + pixel_results(split)
    files.append(output / "results.json")
    content = {"seed": seed, "epochs": epochs, "results": [asdict(r) for r in results]}
    with whole_file(files[-1]) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n")
    return DemoReport(results, len(split.test_images), files)


def digits_split(seed: int) -> Split:
    """The digits that scikit-learn ships: three quarters to train, one quarter to test."""
    images = all_digits()
    positions = range(len(images))
    train, test = train_test_split(positions, random_state=seed, stratify=images.labels)
    return Split(images.subset(train), images.subset(test))


def new_network() -> nn.Sequential:
    """A small convolutional network, images `(n 3 8 8)` to features `(n 64)`."""

    def convolution(inputs: int, outputs: int) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return [layer, nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *convolution(3, 32),
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
    """Trains the network under either classifier; a head absorbs the batch after each step.

    For the last tenth of the epochs its sub-centroids are tied to training images.
    """
    model = nn.Sequential(network, classifier).train()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = epochs * split.steps_per_epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)
    first_anchored = epochs - max(1, round(ANCHORED_SHARE * epochs)) if epochs > 1 else None
    for epoch in range(epochs):
        if epoch == first_anchored and isinstance(classifier, SubCentroidHead):
            tie_(network, classifier, split)
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
    if isinstance(classifier, SubCentroidHead):
        classifier.follow(_seen(network, split), split.train_labels, torch.arange(len(split.train)))


def tie_(network: nn.Module, head: SubCentroidHead, split: Split) -> None:
    """Ties each sub-centroid to the nearest training image of its class."""
    features = _seen(network, split)
    nearest = anchors(head, features, split.train_labels)
    head.anchor(nearest.row, nearest.similarity.nan_to_num())
    head.follow(features, split.train_labels, torch.arange(len(split.train)))


@torch.no_grad()
def _seen(network: nn.Module, split: Split) -> Tensor:
    """Features of the training images, in evaluation mode."""
    with in_evaluation(network):
        features: Tensor = network(split.train_images)
    return features


@torch.no_grad()
def accuracy_of(model: nn.Module, split: Split) -> float:
    """Share of the test images that the model gets right."""
    predicted = model.eval()(split.test_images).argmax(dim=1)
    return float((predicted == split.test_labels).double().mean())


def pixel_results(split: Split) -> list[Result]:
    """Methods without a network, on the pixels themselves."""
    train_rows, test_rows = (
        images[:, 0].flatten(1).numpy() for images in (split.train_images, split.test_images)
    )
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


def show(network: nn.Module, head: SubCentroidHead, split: Split, output: Path) -> list[Path]:
    """A report of the model, and why the most doubtful test images were read as they were."""
    recognizer = recognizer_of(network, head, split)
    tested = looked_at(recognizer, "test", split.test, workers=0)
    trained = looked_at(recognizer, "train", split.train, workers=0)
    report = Report(recognizer, tested, trained, title="handwritten digits")
    doubtful = [
        (split.test.names[int(place)], split.test.read(int(place)))
        for place in tested.position[most_ambiguous(tested, limit=EXPLAINED)]
    ]
    explanation = Explanation.of(recognizer.explainer(), doubtful)
    files = explanation.save(output, forms=("html", "json"))
    return [report.write(output / "report.html").path, *files]


def recognizer_of(network: nn.Module, head: SubCentroidHead, split: Split) -> Recognizer:
    """The trained model with its case base."""
    # The head knows images by their position among the training images, a case base by their id.
    tied = head.ties.ids
    tied.copy_(torch.where(tied >= 0, torch.from_numpy(split.train.ids)[tied.clamp(min=0)], -1))
    model = Classifier(network, head).eval()
    plain = Recognizer(model, None, split.train.classes, PREPROCESSING, {})
    features = features_of(model, split.train, PREPROCESSING, cache=None, workers=0)
    return replace(plain, cases=case_base(plain, split.train, features, "digits"))


def _inputs(images: Images) -> Tensor:
    assert images.pixels is not None
    return normalised(torch.from_numpy(images.pixels), PREPROCESSING).contiguous()


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
