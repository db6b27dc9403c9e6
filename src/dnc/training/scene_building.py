"""The segmenter that a recipe asks for, fresh or on the network of a checkpoint."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from dnc.data import ScenePreprocessing, SceneSplits
from dnc.errors import InvalidModel
from dnc.models import NetworkInfo, Segmenter, Views, backbone, segmenter
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
    assert earlier.network is not None
    network = _network_as_trained(recipe, earlier.network)
    network.load_state_dict(earlier.model.backbone.state_dict())
    model = _around(network, recipe, earlier, len(earlier.classes))
    return replace(earlier, model=model.train())


def _fresh(recipe: Recipe, splits: SceneSplits) -> SceneRecognizer:
    settings, scenes = recipe.model, splits.train
    assert scenes is not None
    model, info = segmenter(
        settings.network,
        len(scenes.classes),
        decoder=recipe.segmenter.decoder(),
        kind=settings.classifier,
        head=recipe.head_settings,
        output_stride=recipe.segmenter.output_stride,
        projection=settings.projection,
        centring=settings.centring,
        auxiliary=recipe.segmenter.auxiliary > 0,
        pretrained=settings.pretrained,
        drop_path=settings.drop_path,
        image_size=recipe.scene.crop,
        generator=seeded(recipe),
    )
    network = Network(settings.network, recipe.scene.crop, settings.projection, settings.centring)
    return SceneRecognizer(
        model=model,
        network=network,
        output_stride=recipe.segmenter.output_stride,
        classes=scenes.classes,
        colours=scenes.colours,
        preprocessing=scene_preprocessing_of(info, recipe),
        notes=notes_of(recipe, splits),
        views=Views(window=recipe.scene.window),
    )


def _on_classifier(recipe: Recipe, earlier: Recognizer, splits: SceneSplits) -> SceneRecognizer:
    """A segmenter on the network of a classifier, with all its weights and its projection."""
    assert earlier.network is not None
    scenes = splits.train
    assert scenes is not None
    projection = earlier.model.projection
    network = _network_as_trained(recipe, earlier.network)
    network.load_state_dict(earlier.model.backbone.state_dict())
    model = on_backbone(
        network,
        len(scenes.classes),
        decoder=recipe.segmenter.decoder(),
        kind=recipe.model.classifier,
        head=recipe.head_settings,
        projection=None if not isinstance(projection, nn.Linear) else projection,
        centring=recipe.model.centring,
        auxiliary=recipe.segmenter.auxiliary > 0,
        generator=seeded(recipe),
    )
    seen = earlier.preprocessing
    return SceneRecognizer(
        model=model.train(),
        network=Network(
            earlier.network.name,
            recipe.scene.crop,
            earlier.network.projection,
            recipe.model.centring,
        ),
        output_stride=recipe.segmenter.output_stride,
        classes=scenes.classes,
        colours=scenes.colours,
        preprocessing=ScenePreprocessing(
            seen.mean, seen.std, shorter_side=recipe.scene.shorter_side
        ),
        notes=notes_of(recipe, splits, came_from=earlier.notes),
        views=Views(window=recipe.scene.window),
    )


def _continued(recipe: Recipe, earlier: SceneRecognizer, splits: SceneSplits) -> SceneRecognizer:
    """A segmenter of other classes on the network and decoder of another."""
    scenes = splits.train
    assert scenes is not None
    assert earlier.network is not None
    if earlier.model.settings != recipe.segmenter.decoder() or (
        earlier.output_stride != recipe.segmenter.output_stride
    ):
        raise InvalidModel(
            f"The checkpoint is a segmenter with {earlier.model.settings} and output stride "
            f"{earlier.output_stride}, and the recipe asks for {recipe.segmenter.decoder()} and "
            f"{recipe.segmenter.output_stride}; give it the same segmenter.* settings, or begin "
            "with the checkpoint of a classifier."
        )
    network = _network_as_trained(recipe, earlier.network)
    network.load_state_dict(earlier.model.backbone.state_dict())
    return SceneRecognizer(
        model=_around(network, recipe, earlier, len(scenes.classes)).train(),
        network=replace(earlier.network, size=recipe.scene.crop),
        output_stride=earlier.output_stride,
        classes=scenes.classes,
        colours=scenes.colours,
        preprocessing=replace(earlier.preprocessing, shorter_side=recipe.scene.shorter_side),
        notes=notes_of(recipe, splits, came_from=earlier.notes),
        views=Views(window=recipe.scene.window),
    )


def scene_recipe_in_truth(recipe: Recipe, network: Network) -> Recipe:
    """The recipe with the network that its checkpoint has brought, if it names one."""
    if recipe.model.start_from is None:
        return recipe
    return recipe.with_network(
        network.name, projection=network.projection, centring=network.centring
    )


def scene_preprocessing_of(info: NetworkInfo, recipe: Recipe) -> ScenePreprocessing:
    """The network's own scaling of colours, and the recipe's of sizes."""
    if len(info.mean) != 3 or len(info.std) != 3:
        raise InvalidModel(f"{info.name} takes images of {len(info.mean)} channels; dnc has 3.")
    return ScenePreprocessing(
        (info.mean[0], info.mean[1], info.mean[2]),
        (info.std[0], info.std[1], info.std[2]),
        shorter_side=recipe.scene.shorter_side,
    )


def _network_as_trained(recipe: Recipe, network: Network) -> nn.Module:
    """The network of a name, dilated and with the stochastic depth that the recipe asks for."""
    made, _ = backbone(
        network.name,
        drop_path=recipe.model.drop_path,
        image_size=recipe.scene.crop,
        output_stride=recipe.segmenter.output_stride,
        any_size=True,
    )
    require_stride(made, recipe.segmenter.output_stride, network.name)
    return made


def _around(
    network: nn.Module, recipe: Recipe, earlier: SceneRecognizer, classes: int
) -> Segmenter:
    """A segmenter with the decoder of an earlier one around a network."""
    projection = earlier.model.projection
    model = on_backbone(
        network,
        classes,
        decoder=earlier.model.settings,
        kind=recipe.model.classifier,
        head=recipe.head_settings,
        projection=projection if isinstance(projection, nn.Linear) else None,
        centring=earlier.network.centring if earlier.network else "none",
        auxiliary=recipe.segmenter.auxiliary > 0,
        generator=seeded(recipe),
    )
    model.decoder.load_state_dict(earlier.model.decoder.state_dict())
    model.centring.load_state_dict(earlier.model.centring.state_dict())
    return model
