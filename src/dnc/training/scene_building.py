"""The segmenter that a recipe asks for, fresh or on the network of a checkpoint."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from dnc.data import ScenePreprocessing, SceneSplits
from dnc.errors import InvalidModel
from dnc.models import Centring, Classifier, Segmenter, Views, backbone, segmenter
from dnc.models.segmenters import on_backbone, require_stride
from dnc.recognition import Network, Recognizer
from dnc.scene_recognition import SceneRecognizer
from dnc.training.building import notes_of, seeded
from dnc.training.checkpoint import load, load_segmenter
from dnc.training.recipe import Recipe


def new_scene_recognizer(recipe: Recipe, splits: SceneSplits) -> SceneRecognizer:
    """A segmenter for the classes of scenes, by a recipe.

    With `model.start_from` its network is that of a checkpoint. Of a classifier it is the whole
    network, softmax or sub-centroids, every weight of it; of a segmenter the decoder as well.
    """
    assert splits.train is not None
    if recipe.model.start_from is None:
        return _fresh(recipe, splits)
    earlier = load(recipe.model.start_from)
    if isinstance(earlier, Recognizer):
        return _on_classifier(recipe, earlier, splits)
    return _continued(recipe, earlier, splits)


def resumed_scene_recognizer(recipe: Recipe, last: Path) -> SceneRecognizer:
    """The segmenter of a run's last checkpoint; what only training needs is restored later."""
    earlier = load_segmenter(last)
    model = _with_decoder(recipe, earlier, len(earlier.classes))
    return replace(earlier, model=model.train())


def _fresh(recipe: Recipe, splits: SceneSplits) -> SceneRecognizer:
    settings = recipe.model
    model, info = segmenter(
        settings.network,
        len(splits.classes),
        decoder=recipe.segmenter.decoder(),
        kind=settings.classifier,
        head=recipe.head_settings,
        output_stride=recipe.segmenter.output_stride,
        projection=settings.projection,
        centring=settings.centring,
        auxiliary=recipe.segmenter.auxiliary > 0,
        contrast=recipe.segmenter.contrast > 0,
        pretrained=settings.pretrained,
        drop_path=settings.drop_path,
        image_size=recipe.scene.crop,
        generator=seeded(recipe),
    )
    if len(info.mean) != 3 or len(info.std) != 3:
        raise InvalidModel(f"{info.name} takes images of {len(info.mean)} channels; dnc has 3.")
    mean, std = (info.mean[0], *info.mean[1:]), (info.std[0], *info.std[1:])
    network = Network(settings.network, 0, settings.projection, settings.centring)
    return _recognizer(recipe, splits, model, network, mean=mean, std=std, came_from=None)


def _on_classifier(recipe: Recipe, earlier: Recognizer, splits: SceneSplits) -> SceneRecognizer:
    """A segmenter on the network of a classifier, with all its weights and its projection."""
    assert earlier.network is not None
    model = _around(
        earlier.model,
        earlier.network,
        recipe,
        len(splits.classes),
        centring=recipe.model.centring,
    )
    seen = earlier.preprocessing
    return _recognizer(
        recipe,
        splits,
        model.train(),
        replace(earlier.network, centring=recipe.model.centring),
        mean=seen.mean,
        std=seen.std,
        came_from=earlier.notes,
    )


def _continued(recipe: Recipe, earlier: SceneRecognizer, splits: SceneSplits) -> SceneRecognizer:
    """A segmenter of other classes on the network and decoder of another."""
    wanted, stride = recipe.segmenter.decoder(), recipe.segmenter.output_stride
    if (earlier.model.settings, earlier.output_stride) != (wanted, stride):
        raise InvalidModel(
            f"The checkpoint is a segmenter with {earlier.model.settings} and output stride "
            f"{earlier.output_stride}, and the recipe asks for {wanted} and {stride}; give it the "
            "same segmenter.* settings, or begin with the checkpoint of a classifier."
        )
    assert earlier.network is not None
    seen = earlier.preprocessing
    return _recognizer(
        recipe,
        splits,
        _with_decoder(recipe, earlier, len(splits.classes)).train(),
        earlier.network,
        mean=seen.mean,
        std=seen.std,
        came_from=earlier.notes,
    )


def _recognizer(
    recipe: Recipe,
    splits: SceneSplits,
    model: Segmenter,
    network: Network,
    *,
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    came_from: dict[str, object] | None,
) -> SceneRecognizer:
    """A segmenter with what the recipe says of its images, and the scenes of their classes."""
    assert splits.train is not None
    return SceneRecognizer(
        model=model,
        network=replace(network, size=recipe.scene.crop),
        output_stride=recipe.segmenter.output_stride,
        classes=splits.train.classes,
        colours=splits.train.colours,
        preprocessing=ScenePreprocessing(mean, std, shorter_side=recipe.scene.shorter_side),
        notes=notes_of(recipe, splits, came_from=came_from),
        views=Views(window=recipe.scene.window),
    )


def _around(
    earlier: Classifier | Segmenter,
    network: Network,
    recipe: Recipe,
    classes: int,
    *,
    centring: Centring,
) -> Segmenter:
    """A new segmenter on the network of an earlier model, with every weight and its projection.

    The network is dilated and has the stochastic depth that the recipe asks for.
    """
    made, _ = backbone(
        network.name,
        drop_path=recipe.model.drop_path,
        image_size=recipe.scene.crop,
        output_stride=recipe.segmenter.output_stride,
        any_size=True,
    )
    require_stride(made, recipe.segmenter.output_stride, network.name)
    made.load_state_dict(earlier.backbone.state_dict())
    projection = earlier.projection
    return on_backbone(
        made,
        classes,
        decoder=recipe.segmenter.decoder(),
        kind=recipe.model.classifier,
        head=recipe.head_settings,
        projection=projection if isinstance(projection, nn.Linear) else None,
        centring=centring,
        auxiliary=recipe.segmenter.auxiliary > 0,
        contrast=recipe.segmenter.contrast > 0,
        generator=seeded(recipe),
    )


def _with_decoder(recipe: Recipe, earlier: SceneRecognizer, classes: int) -> Segmenter:
    """The same, with the decoder and the centring of an earlier segmenter too."""
    assert earlier.network is not None
    network = earlier.network
    model = _around(earlier.model, network, recipe, classes, centring=network.centring)
    model.decoder.load_state_dict(earlier.model.decoder.state_dict())
    model.centring.load_state_dict(earlier.model.centring.state_dict())
    return model
