"""The model that a recipe asks for, fresh or continued from a checkpoint."""

from pathlib import Path

import torch

from dnc.data import DataSplits, Images, Preprocessing
from dnc.errors import InvalidModel, InvalidRecipe
from dnc.models import NetworkInfo, classifier
from dnc.recognition import Network, Recognizer
from dnc.training.checkpoint import load
from dnc.training.recipe import Recipe


def new_recognizer(
    recipe: Recipe, splits: DataSplits, *, start_from: Path | None = None
) -> Recognizer:
    """A model for the classes of a data set, by a recipe.

    With `start_from` it is the network of that checkpoint, all its parameters included; only the
    sub-centroids (or the softmax layer) begin anew, because the classes do.
    """
    assert splits.train is not None
    classes = splits.train.classes
    if start_from is None:
        return _fresh(recipe, splits.train, notes=_notes(recipe, splits))
    earlier = load(start_from)
    assert earlier.network is not None
    model = earlier.model.with_classes(
        len(classes),
        kind=recipe.model.classifier,
        settings=recipe.head.settings(recipe.training.batch_size),
        generator=_seeded(recipe),
    )
    return Recognizer(
        model=model.train(),
        network=earlier.network,
        classes=classes,
        preprocessing=earlier.preprocessing,
        notes=_notes(recipe, splits, came_from=earlier.notes),
    )


def preprocessing_of(
    info: NetworkInfo, *, size: int | None = None, resize: int | None = None
) -> Preprocessing:
    """The network's own preprocessing, at another size if one is given."""
    size = size or info.input_size
    resize = resize or round(size * info.resize / info.input_size)
    if resize < size:
        raise InvalidRecipe(
            f"resize is {resize}, less than the size {size}; the central crop must fit in it."
        )
    if len(info.mean) != 3 or len(info.std) != 3:
        raise InvalidModel(f"{info.name} takes images of {len(info.mean)} channels; dnc has 3.")
    return Preprocessing(
        size=size,
        resize=resize,
        mean=(info.mean[0], info.mean[1], info.mean[2]),
        std=(info.std[0], info.std[1], info.std[2]),
        interpolation="bilinear" if info.interpolation == "bilinear" else "bicubic",
    )


def _fresh(recipe: Recipe, images: Images, *, notes: dict[str, object]) -> Recognizer:
    settings = recipe.model
    model, info = classifier(
        settings.network,
        len(images.classes),
        kind=settings.classifier,
        head=recipe.head.settings(recipe.training.batch_size),
        projection=settings.projection,
        centring=settings.centring,
        pretrained=settings.pretrained,
        drop_path=settings.drop_path,
        image_size=recipe.data.size,
        generator=_seeded(recipe),
    )
    preprocessing = preprocessing_of(info, size=recipe.data.size, resize=recipe.data.resize)
    network = Network(settings.network, preprocessing.size, settings.projection, settings.centring)
    return Recognizer(model, network, images.classes, preprocessing, notes)


def _notes(
    recipe: Recipe, splits: DataSplits, *, came_from: dict[str, object] | None = None
) -> dict[str, object]:
    """Where a model comes from, kept with it."""
    assert splits.train is not None
    data = {
        "kind": splits.kind,
        "training_images": len(splits.train),
        "fingerprint": splits.train.fingerprint(),
    }
    notes: dict[str, object] = {"recipe": recipe.model_dump(mode="json"), "data": data}
    return notes if came_from is None else {**notes, "continued_from": came_from}


def _seeded(recipe: Recipe) -> torch.Generator:
    return torch.Generator().manual_seed(recipe.training.seed)
