"""The model that a recipe asks for, fresh or continued from a checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from dnc.data import DataSplits, Images, Preprocessing, Scenes, SceneSplits
from dnc.data.coarse import coarse_of
from dnc.errors import InvalidModel, InvalidRecipe
from dnc.models import Classifier, HeadSettings, NetworkInfo, backbone, classifier
from dnc.models.heads import settings_of
from dnc.recognition import Network, Recognizer
from dnc.rivals import NeighbourHead
from dnc.training.checkpoint import load_classifier
from dnc.training.recipe import Recipe


def new_recognizer(recipe: Recipe, splits: DataSplits) -> Recognizer:
    """A model for the classes of a data set, by a recipe.

    With `model.start_from` it is the network of that checkpoint, all its parameters included; only
    the sub-centroids (or the softmax layer) begin anew, because the classes do.
    """
    assert splits.train is not None
    if recipe.model.start_from is None:
        return _fresh(recipe, splits.train, notes=notes_of(recipe, splits))
    return _continued(recipe, load_classifier(recipe.model.start_from), splits)


def resumed_recognizer(recipe: Recipe, last: Path) -> Recognizer:
    """The model of a run's last checkpoint, with room for the memory that is then restored."""
    earlier = load_classifier(last)
    known = settings_of(earlier.model.head)
    settings = _with_bank(recipe.head_settings, known.rival.bank_rows)
    if recipe.model.classifier == "dnc":
        settings = replace(settings, subcentroids=known.subcentroids)
    model = earlier.model.with_classes(
        len(earlier.classes),
        kind=recipe.model.classifier,
        settings=settings,
        generator=seeded(recipe),
    )
    _apply_drop_path(model, earlier, recipe)
    return replace(earlier, model=model.train())


def numbers_by_size(sizes: Sequence[int], fewest: int, most: int) -> tuple[int, ...]:
    """How many sub-centroids each class has: the sizes of classes in equal ranges, by their number.

    As in the paper's appendix: between 732 and 1,300 images, 1 to 4 sub-centroids. Sizes that
    differ by fewer images than there are numbers are as good as equal: all have the most.
    """
    least, steps = min(sizes), most - fewest + 1
    span = max(sizes) - least + 1
    if span < steps:
        return (most,) * len(sizes)
    return tuple(fewest + (size - least) * steps // span for size in sizes)


def _head_settings(recipe: Recipe, images: Images) -> HeadSettings:
    """The settings of a head for these images."""
    settings, head = _with_bank(recipe.head_settings, len(images)), recipe.head
    if head.fewest is None:
        return settings
    assert isinstance(head.subcentroids, int)
    numbers = numbers_by_size(images.counts().tolist(), head.fewest, head.subcentroids)
    return replace(settings, subcentroids=numbers)


def _with_bank(settings: HeadSettings, rows: int) -> HeadSettings:
    """The settings with a bank of so many training images."""
    return replace(settings, rival=replace(settings.rival, bank_rows=rows))


def _hold_images_(model: Classifier, images: Images) -> None:
    """Tells a head that keeps every training image which these are."""
    if isinstance(model.head, NeighbourHead):
        model.head.hold(torch.from_numpy(images.ids), torch.from_numpy(images.labels))


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
        head=_head_settings(recipe, images),
        projection=settings.projection,
        centring=settings.centring,
        pretrained=settings.pretrained,
        drop_path=settings.drop_path,
        image_size=recipe.data.size,
        generator=seeded(recipe),
    )
    _hold_images_(model, images)
    preprocessing = preprocessing_of(info, size=recipe.data.size, resize=recipe.data.resize)
    network = Network(settings.network, preprocessing.size, settings.projection, settings.centring)
    return Recognizer(model, network, images.classes, preprocessing, notes)


def _continued(recipe: Recipe, earlier: Recognizer, splits: DataSplits) -> Recognizer:
    assert splits.train is not None
    assert earlier.network is not None
    recipe = recipe_in_truth(recipe, earlier.network)
    model = earlier.model.with_classes(
        len(splits.train.classes),
        kind=recipe.model.classifier,
        settings=_head_settings(recipe, splits.train),
        generator=seeded(recipe),
    )
    _hold_images_(model, splits.train)
    _apply_drop_path(model, earlier, recipe)
    size = recipe.data.size or earlier.network.size
    grown = size / earlier.preprocessing.size
    resize = recipe.data.resize or round(earlier.preprocessing.resize * grown)
    _require_size(earlier, size)
    return Recognizer(
        model=model.train(),
        network=replace(earlier.network, size=size),
        classes=splits.train.classes,
        preprocessing=replace(earlier.preprocessing, size=size, resize=resize),
        notes=notes_of(recipe, splits, came_from=earlier.notes),
    )


def recipe_in_truth(recipe: Recipe, network: Network) -> Recipe:
    """The recipe with the network that its checkpoint has brought, if it names one."""
    if recipe.model.start_from is None:
        return recipe
    return recipe.with_network(
        network.name, projection=network.projection, centring=network.centring
    )


def _apply_drop_path(model: Classifier, earlier: Recognizer, recipe: Recipe) -> None:
    """Gives the network the recipe's stochastic depth, which is no part of its weights."""
    if not recipe.model.drop_path:
        return
    assert earlier.network is not None
    network, _ = backbone(
        earlier.network.name, drop_path=recipe.model.drop_path, image_size=earlier.network.size
    )
    network.load_state_dict(model.backbone.state_dict())
    model.backbone = network


def _require_size(earlier: Recognizer, size: int) -> None:
    """Some networks have parameters for each place of the image and fit one size alone."""
    network = earlier.network
    assert network is not None
    if size == network.size:
        return
    with torch.device("meta"):
        resized, _ = backbone(network.name, image_size=size)
    given = {name: value.shape for name, value in earlier.model.backbone.state_dict().items()}
    if {name: value.shape for name, value in resized.state_dict().items()} != given:
        raise InvalidRecipe(
            f"data.size is {size}, but {network.name} was trained at {network.size} and has "
            f"parameters for that size alone; leave data.size out."
        )


def notes_of(
    recipe: Recipe,
    splits: DataSplits | SceneSplits,
    *,
    came_from: dict[str, object] | None = None,
) -> dict[str, object]:
    """Where a model comes from, kept with it."""
    assert splits.train is not None
    data = {
        "kind": splits.kind,
        "validation_share": recipe.data.validation_share,
        "seed": recipe.training.seed,
        "train_per_class": recipe.data.train_per_class,
        "train_images": recipe.data.train_images,
        "coarse": _coarse(recipe, splits.train),
        "training_images": len(splits.train),
        "fingerprint": splits.train.fingerprint(),
    }
    notes: dict[str, object] = {"recipe": recipe.model_dump(mode="json"), "data": data}
    return notes if came_from is None else {**notes, "continued_from": came_from}


def _coarse(recipe: Recipe, train: Images | Scenes) -> str | Mapping[str, str] | None:
    return coarse_of(train, recipe.data.coarse) if isinstance(train, Images) else None


def seeded(recipe: Recipe) -> torch.Generator:
    """The source of a run's random starts."""
    return torch.Generator().manual_seed(recipe.training.seed)
