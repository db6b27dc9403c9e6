"""`dnc fit`: sub-centroids for the features of a network as it is, without training it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from dnc import __version__
from dnc.centroids import SubCentroidHead
from dnc.data import BadFile, DataSplits, Preprocessing, open_data
from dnc.data.coarse import coarse_of, coarse_text
from dnc.errors import InvalidData, InvalidSetting
from dnc.evaluation import Evaluation, evaluate, write_evaluation
from dnc.models import Centring, Classifier, HeadSettings, centring_layer, classifier
from dnc.recognition import Network, Recognizer
from dnc.training.building import preprocessing_of
from dnc.training.casebase import with_cases, write_case_table
from dnc.training.checkpoint import load_classifier, save
from dnc.training.features import Features, features_of
from dnc.training.left_out import Choice, fitted_choice
from dnc.training.listing import write_listing, write_set_aside
from dnc.training.results import part_to_evaluate
from dnc.training.starting import start_from_features_

DEFAULT_NETWORK = "efficientnet-lite0"
# What `auto` chooses from.
NUMBERS = (1, 2, 4, 8)


@dataclass(frozen=True)
class FitReport:
    """What `dnc fit` has made.

    Attributes:
        training_images: images whose features were clustered.
        cases: sub-centroids of all classes.
        choice: how many each class was given, and by what.
        evaluated_on: test, validation, or train where there is nothing else.
        evaluation: on these.
        set_aside: files that could not be read.
        coarse: the coarse classes in words, if there are finer ones.
    """

    training_images: int
    cases: int
    choice: Choice
    evaluated_on: str
    evaluation: Evaluation
    set_aside: tuple[BadFile, ...]
    coarse: str | None = None


@dataclass(frozen=True)
class FitSettings:
    """What a classifier without training depends on.

    Attributes:
        network: name of a pretrained network.
        weights: a file of weights for it, in place of those it comes with.
        start_from: a checkpoint whose network is used instead.
        subcentroids: cases of each class (K); `auto` is the number that fits images left out best.
        assign: balanced clusters, or free ones.
        centring: what is taken out of the features, as for `centring_layer`.
        size: pixels of a side; None is the network's own.
        kind: layout of the images; None recognises it.
        validation_share: images to evaluate on where the data set has none for it.
        seed: of that choice.
        coarse: coarse classes in the place of those that the images have, as for `open_data`.
    """

    network: str = DEFAULT_NETWORK
    weights: Path | None = None
    start_from: Path | None = None
    subcentroids: int | Literal["auto"] = "auto"
    assign: Literal["sinkhorn", "kmeans"] = "sinkhorn"
    centring: Centring = "whitened"
    size: int | None = None
    kind: str | None = None
    validation_share: float = 0.2
    seed: int = 0
    coarse: str | None = None

    def __post_init__(self) -> None:
        """Raises if two settings exclude each other."""
        brought = (self.network != DEFAULT_NETWORK, self.weights, self.size)
        if self.start_from is not None and any(brought):
            raise InvalidSetting("--from brings its network; give no --network, --weights, --size.")


def fit_folder(
    data: Path,
    output: Path,
    settings: FitSettings,
    *,
    cache: Path | None = None,
    workers: int | None = None,
    device: str = "cpu",
    overwrite: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> FitReport:
    """Makes a classifier of images with a network as it is, writes and evaluates it."""
    splits = _split(data, settings)
    if output.exists() and not overwrite:
        raise InvalidSetting(f"{output} is there already; give another --output or --overwrite.")
    model, network, preprocessing = frozen_network(settings)
    assert splits.train is not None
    features = features_of(
        model.to(device),
        splits.train,
        preprocessing,
        cache=cache,
        workers=workers,
        on_progress=on_progress,
    )
    choice = _choice(features, len(splits.train.classes), settings)
    recognizer = fit(
        model.cpu(),
        features,
        network=network,
        preprocessing=preprocessing,
        splits=splits,
        settings=settings,
        choice=choice,
    )
    name, images = part_to_evaluate(splits, data)
    found = [*splits.set_aside, *features.bad_files]
    evaluation = evaluate(recognizer.to(device), images, workers=workers, on_bad_file=found.append)
    recognizer.notes["results"] = {name: evaluation.top1}
    with torch.no_grad():
        seen = replace(features, rows=recognizer.to("cpu").model.centring(features.rows))
    recognizer = with_cases(recognizer, splits, seen)
    save(recognizer, output / "model")
    write_evaluation(evaluation, output / "evaluation" / name)
    set_aside = tuple(dict.fromkeys(found))
    write_listing(splits, output / "files.csv")
    head = recognizer.model.head
    assert isinstance(head, SubCentroidHead)
    write_case_table(recognizer, output / "cases.csv")
    write_set_aside(set_aside, output / "set-aside.csv")
    cases = int(head.occupied.sum())
    has_finer = splits.train.fine_labels is not None
    coarse = coarse_text(splits.train) if has_finer else None
    return FitReport(len(features.labels), cases, choice, name, evaluation, set_aside, coarse)


def fit(
    model: Classifier,
    features: Features,
    *,
    network: Network,
    preprocessing: Preprocessing,
    splits: DataSplits,
    settings: FitSettings,
    choice: Choice,
) -> Recognizer:
    """A recognizer whose sub-centroids are the clusters of the features, found to convergence.

    The features are centred first: behind a rectifier and a mean they all point the same way.
    Whitened, they differ from class to class and not where the images of a class differ.
    """
    assert splits.train is not None
    classes = splits.train.classes
    wanted = HeadSettings(
        subcentroids=choice.subcentroids,
        temperature=choice.temperature,
        assign=settings.assign,
    )
    whole = model.with_classes(len(classes), settings=wanted, kind="dnc")
    whole.centring = centring_layer(settings.centring, whole.dim)
    assert isinstance(whole.head, SubCentroidHead)
    rounds = start_from_features_(whole.head, whole.centring, features)
    notes = {
        "fit": {
            "rounds": rounds,
            "temperature": choice.temperature,
            "left_out_loss": {str(number): loss for number, loss in choice.losses.items()},
            "dnc": __version__,
        },
        "data": {
            "kind": splits.kind,
            "validation_share": settings.validation_share if splits.validation else 0.0,
            "seed": settings.seed,
            "train_per_class": None,
            "coarse": coarse_of(splits.train, settings.coarse),
            "training_images": len(splits.train),
            "fingerprint": splits.train.fingerprint(),
        },
    }
    centred_network = Network(network.name, network.size, network.projection, settings.centring)
    return Recognizer(whole.eval(), centred_network, classes, preprocessing, notes)


def frozen_network(settings: FitSettings) -> tuple[Classifier, Network, Preprocessing]:
    """A network as it is, without cases and centring, and how images become its input."""
    if settings.start_from is not None:
        recognizer = load_classifier(settings.start_from)
        network, model = recognizer.network, recognizer.model
        assert network is not None
        model.centring = nn.Identity()
        return model, network, recognizer.preprocessing
    name, size = settings.network, settings.size
    pretrained = settings.weights or True
    model, info = classifier(name, 1, pretrained=pretrained, image_size=size)
    return model.eval(), Network(name, size or info.input_size), preprocessing_of(info, size=size)


def _choice(features: Features, classes: int, settings: FitSettings) -> Choice:
    numbers = NUMBERS if settings.subcentroids == "auto" else (settings.subcentroids,)
    head = HeadSettings(assign=settings.assign)
    return fitted_choice(features, classes, head, settings.centring, numbers=numbers)


def _split(data: Path, settings: FitSettings) -> DataSplits:
    """The images as they are divided already, or else divided by the settings."""
    kind, coarse = settings.kind, settings.coarse
    splits = open_data(data, kind=kind, validation_share=0.0, coarse=coarse)
    if splits.validation is None and splits.test is None:
        share, seed = settings.validation_share, settings.seed
        splits = open_data(data, kind=kind, validation_share=share, seed=seed, coarse=coarse)
    if splits.train is None or not len(splits.train):
        raise InvalidData(f"{data} ({splits.kind}) has no images to take the cases from.")
    return splits
