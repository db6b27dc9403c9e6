"""`dnc fit`: sub-centroids for the features of a network as it is, without training it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dnc import __version__
from dnc.centroids import SubCentroidHead, kmeans, sinkhorn
from dnc.data import BadFile, DataSplits, Images, Preprocessing, loader, open_data
from dnc.errors import InvalidCheckpoint, InvalidData, InvalidSetting
from dnc.estimator import NearestSubCentroids
from dnc.evaluation import Evaluation, evaluate, write_evaluation
from dnc.files import whole_file
from dnc.models import Classifier, HeadSettings, classifier
from dnc.recognition import Network, Recognizer
from dnc.training.building import preprocessing_of
from dnc.training.checkpoint import load, save
from dnc.training.listing import write_cases, write_listing, write_set_aside
from dnc.training.results import part_to_evaluate
from dnc.training.state import read_tensors, write_tensors

DEFAULT_NETWORK = "efficientnet-lite0"


@dataclass(frozen=True)
class Features:
    """Features of images as a frozen network gives them.

    Attributes:
        rows: before they are centred.
        labels: class of each.
        ids: which image each is of.
        bad_files: images that could not be read.
        cached: whether they were computed in an earlier sitting.
    """

    rows: Float[Tensor, "n d"]
    labels: Int[Tensor, " n"]
    ids: Int[Tensor, " n"]
    bad_files: tuple[BadFile, ...]
    cached: bool


@dataclass(frozen=True)
class FitReport:
    """What `dnc fit` has made.

    Attributes:
        training_images: images whose features were clustered.
        cases: sub-centroids of all classes.
        evaluated_on: test, validation, or train where there is nothing else.
        evaluation: on these.
        set_aside: files that could not be read.
    """

    training_images: int
    cases: int
    evaluated_on: str
    evaluation: Evaluation
    set_aside: tuple[BadFile, ...]


def fit_folder(
    data: Path,
    output: Path,
    *,
    network: str,
    weights: Path | None,
    start_from: Path | None,
    subcentroids: int,
    assign: Literal["sinkhorn", "kmeans"],
    size: int | None,
    kind: str | None,
    validation_share: float,
    seed: int,
    cache: Path | None,
    workers: int | None,
    device: str,
    overwrite: bool,
    on_progress: Callable[[int, int], None] | None = None,
) -> FitReport:
    """Makes a classifier of images with a network as it is, writes and evaluates it."""
    if not data.exists() and kind != "digits":
        raise InvalidData(f"There is no file or folder {data}.")
    if output.exists() and not overwrite:
        raise InvalidSetting(f"{output} is there already; give another --output or --overwrite.")
    splits = open_data(data, kind=kind, validation_share=0.0)
    if splits.validation is None and splits.test is None:
        splits = open_data(data, kind=kind, validation_share=validation_share, seed=seed)
    if splits.train is None or not len(splits.train):
        raise InvalidData(f"{data} ({splits.kind}) has no images to take the cases from.")
    if start_from is not None:
        if size is not None or weights is not None or network != DEFAULT_NETWORK:
            raise InvalidSetting("--from brings its network; give no --network, --weights, --size.")
        model, spec, preprocessing = network_of_checkpoint(start_from)
    else:
        model, spec, preprocessing = frozen_network(network, pretrained=weights or True, size=size)
    model.to(device)
    features = features_of(
        model, splits.train, preprocessing, cache=cache, workers=workers, on_progress=on_progress
    )
    settings = HeadSettings(subcentroids=subcentroids, assign=assign)
    recognizer = fit(
        model.cpu(),
        spec,
        preprocessing,
        splits,
        features,
        settings=settings,
        validation_share=validation_share if splits.validation is not None else 0.0,
        seed=seed,
    )
    name, images = part_to_evaluate(splits, data)
    found = [*splits.set_aside, *features.bad_files]
    evaluation = evaluate(recognizer.to(device), images, workers=workers, on_bad_file=found.append)
    recognizer.notes["results"] = {name: evaluation.top1}
    save(recognizer.to("cpu"), output / "model")
    write_evaluation(evaluation, output / "evaluation" / name)
    set_aside = tuple(dict.fromkeys(found))
    write_listing(splits, output / "files.csv")
    write_cases(recognizer, splits, features, output / "cases.csv")
    write_set_aside(set_aside, output / "set-aside.csv")
    head = recognizer.model.head
    assert isinstance(head, SubCentroidHead)
    cases = int(head.occupied.sum())
    return FitReport(len(features.labels), cases, name, evaluation, set_aside)


def fit(
    model: Classifier,
    network: Network,
    preprocessing: Preprocessing,
    splits: DataSplits,
    features: Features,
    *,
    settings: HeadSettings,
    validation_share: float = 0.0,
    seed: int = 0,
) -> Recognizer:
    """A recognizer whose sub-centroids are the clusters of the features, found to convergence.

    The features are centred first: behind a rectifier and a mean they all point the same way.
    """
    assert splits.train is not None
    classes = splits.train.classes
    whole = model.with_classes(len(classes), settings=settings, kind="dnc")
    whole.centring = centring_of(features.rows)
    with torch.no_grad():
        centred = whole.centring.eval()(features.rows)
    clusters = NearestSubCentroids(
        settings.subcentroids,
        epsilon=settings.epsilon,
        iterations=settings.iterations,
        assign=sinkhorn if settings.assign == "sinkhorn" else kmeans,
    ).fit(centred.numpy(), features.labels.numpy())
    head = whole.head
    assert isinstance(head, SubCentroidHead)
    present = torch.from_numpy(clusters.classes_).long()
    held = torch.from_numpy(clusters.counts_)
    k = held.shape[1]
    head.centroids[present, :k] = torch.from_numpy(clusters.centroids_).float()
    head.occupied[present, :k] = held > 0
    head.held[present, :k] = held.round().long()
    head.steps += 1
    notes = {
        "fit": {"rounds": int(clusters.n_iter_), "dnc": __version__},
        "data": {
            "kind": splits.kind,
            "validation_share": validation_share,
            "seed": seed,
            "train_per_class": None,
            "training_images": len(splits.train),
            "fingerprint": splits.train.fingerprint(),
        },
    }
    centred_network = Network(network.name, network.size, network.projection, centring=True)
    return Recognizer(whole.eval(), centred_network, classes, preprocessing, notes)


def frozen_network(
    name: str, *, pretrained: bool | Path, size: int | None
) -> tuple[Classifier, Network, Preprocessing]:
    """A pretrained network by name, and how images become its input."""
    model, info = classifier(name, 1, pretrained=pretrained, image_size=size)
    return model.eval(), Network(name, size or info.input_size), preprocessing_of(info, size=size)


def network_of_checkpoint(path: Path) -> tuple[Classifier, Network, Preprocessing]:
    """The network of a checkpoint, without its cases and its centring."""
    recognizer = load(path)
    network, model = recognizer.network, recognizer.model
    assert network is not None
    model.centring = nn.Identity()
    return model, network, recognizer.preprocessing


def centring_of(rows: Float[Tensor, "n d"]) -> nn.BatchNorm1d:
    """Batch normalisation without parameters that takes the mean and spread of rows out of them."""
    if len(rows) < 2:
        raise InvalidData(f"There are {len(rows)} readable training images; at least 2 are needed.")
    layer = nn.BatchNorm1d(rows.shape[1], affine=False).eval()
    variance, mean = torch.var_mean(rows.double(), dim=0)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    layer.running_mean.copy_(mean)
    # A dimension that is always the same says nothing; dividing by its spread would be noise.
    layer.running_var.copy_(torch.where(variance > 1e-12, variance, 1.0))
    return layer


@torch.no_grad()
def features_of(
    model: Classifier,
    images: Images,
    preprocessing: Preprocessing,
    *,
    cache: Path | None,
    batch_size: int = 32,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Features:
    """Features of all images in evaluation mode, from the cache if they were computed before.

    `on_progress` is told how many images are done, of how many.
    """
    file = None if cache is None else cache / f"{_key(model, images, preprocessing)}.safetensors"
    if file is not None and file.is_file():
        found = _from_cache(file)
        if found is not None:
            return found
    model.eval()
    device = next(model.parameters()).device
    rows, labels, ids = [], [], []
    batches = loader(images, preprocessing, batch_size=batch_size, workers=workers)
    done = 0
    for batch in batches:
        if len(batch.labels):
            rows.append(model.features(batch.images.to(device)).float().cpu())
            labels.append(batch.labels)
            ids.append(batch.ids)
        done += len(batch.labels)
        if on_progress is not None:
            on_progress(done, len(images))
    if not rows:
        raise InvalidData(f"None of the {len(images)} images in {images.root} can be read.")
    made = Features(
        torch.cat(rows), torch.cat(labels), torch.cat(ids), batches.bad_files, cached=False
    )
    if file is not None and not made.bad_files:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as unfinished:
            tensors = {"rows": made.rows, "labels": made.labels, "ids": made.ids}
            write_tensors(tensors, unfinished)
    return made


def _from_cache(file: Path) -> Features | None:
    """Features of an earlier sitting; None if the file is damaged, which only costs time."""
    try:
        tensors = read_tensors(file)
        return Features(tensors["rows"], tensors["labels"], tensors["ids"], (), cached=True)
    except (InvalidCheckpoint, KeyError):
        return None


def _key(model: Classifier, images: Images, preprocessing: Preprocessing) -> str:
    """A name for the features that changes with the images, the network and its input."""
    digest = hashlib.sha256(images.fingerprint().encode())
    digest.update(repr((sorted(preprocessing.to_dict().items()), len(images))).encode())
    digest.update(images.ids.tobytes())
    for name, value in sorted(model.state_dict().items()):
        if not name.startswith("head."):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:32]
