"""A recipe: everything that a training run depends on, in one small validated file."""

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import Field, ValidationError, model_validator

from dnc.data import KINDS, SCENE_KINDS
from dnc.data.coarse import is_file_of_classes
from dnc.errors import InvalidRecipe
from dnc.files import whole_file
from dnc.models import HeadSettings
from dnc.training.recipe_text import nearest, parsed, read_text, recipe_path, told, written
from dnc.training.scene_sections import Scene, Segmenter
from dnc.training.section import Section
from dnc.training.sections import (
    Augment,
    Data,
    Head,
    Model,
    Optimizer,
    Rival,
    Schedule,
    Training,
)

Task = Literal["classification", "segmentation"]

# Fields that mean nothing for the other task. One that is set there all the same would be ignored,
# so it is an error.
OF_CLASSIFICATION = (
    *("data.train_per_class", "data.size", "data.resize", "data.store", "data.download"),
    "data.coarse",
    *("head.memory_batches", "head.memory_dtype", "head.batch_means", "head.start_epoch"),
    *("head.anchor_choice", "head.fewest", "head.offline_every", "augment", "rival"),
)
# From this many batches on an epoch consists of whole ones. A small last batch has poor statistics;
# in a large set nobody misses it, and it is of other images the next time.
WHOLE_BATCHES_FROM = 10
OF_SEGMENTATION = (
    *("data.train_images", "segmenter", "head.keep_length", "scene", "training.iterations"),
)


class Recipe(Section):
    """A whole recipe."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")] = Field(
        "run", description="names the folder of the run"
    )
    about: str = Field("", description="a sentence on what it is for")
    task: Task = Field("classification", description="of images, or of their pixels")
    data: Data = Data()
    model: Model = Model()
    segmenter: Segmenter = Segmenter()
    head: Head = Head()
    rival: Rival = Rival()
    scene: Scene = Scene()
    augment: Augment = Augment()
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    training: Training = Training()

    @model_validator(mode="after")
    def _settings_are_of_the_task(self) -> Self:
        foreign = OF_CLASSIFICATION if self.task == "segmentation" else OF_SEGMENTATION
        defaults = type(self)._untouched()
        for name in foreign:
            given, default = self, defaults
            for part in name.split("."):
                given, default = getattr(given, part), default[part]
            value = given.model_dump() if isinstance(given, Section) else given
            if value != default:
                raise ValueError(f"{name} is set, which means nothing for task {self.task}")
        if self.task == "segmentation" and self.model.classifier not in ("dnc", "softmax"):
            raise ValueError(
                f"model.classifier is {self.model.classifier}, which is for task classification; "
                "use dnc or softmax"
            )
        if self.task == "segmentation" and self.head.start == "data":
            raise ValueError(
                "head.start is data, which is for task classification: the decoder of a segmenter "
                "begins at random, and so do its features"
            )
        if self.data.kind is not None and (self.data.kind in SCENE_KINDS) != (
            self.task == "segmentation"
        ):
            kinds = SCENE_KINDS if self.task == "segmentation" else KINDS
            raise ValueError(
                f"data.kind is {self.data.kind}, and task {self.task}; use one of "
                f"{', '.join(kinds)}"
            )
        return self

    @classmethod
    def _untouched(cls) -> dict[str, Any]:
        """Every default, as nested mappings."""
        return {
            name: info.default.model_dump() if isinstance(info.default, Section) else info.default
            for name, info in cls.model_fields.items()
        }

    @model_validator(mode="after")
    def _whitening_has_data(self) -> Self:
        if self.model.centring == "whitened" and not (
            self.head.start == "data" or self.model.start_from is not None
        ):
            raise ValueError(
                "model.centring is whitened, which takes statistics of the data; set "
                "head.start to data, or continue a checkpoint that is whitened"
            )
        return self

    @model_validator(mode="after")
    def _start_comes_in_the_run(self) -> Self:
        epoch, epochs = self.head.start_epoch, self.training.epochs
        if epoch and self.head.start != "data":
            raise ValueError(
                f"head.start_epoch is {epoch}, which is for head.start data; head.start is "
                f"{self.head.start}"
            )
        if epoch >= epochs:
            raise ValueError(
                f"head.start_epoch is {epoch} and training.epochs {epochs}; it must be less"
            )
        return self

    @model_validator(mode="after")
    def _offline_clustering_comes_in_the_run(self) -> Self:
        every, epochs = self.head.offline_every, self.training.epochs
        if every is not None and every >= epochs:
            raise ValueError(
                f"head.offline_every is {every} and training.epochs {epochs}; it must be less, or "
                "nothing would ever be clustered"
            )
        if every is not None and self.head.anchored_share:
            raise ValueError(
                f"head.offline_every is {every} and head.anchored_share "
                f"{self.head.anchored_share:g}; sub-centroids cannot be clusters and images at "
                "once, so leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _neighbours_are_images_by_themselves(self) -> Self:
        mixes = self.augment.mixup > 0 or self.augment.cutmix > 0
        if self.model.classifier == "deepnca" and mixes:
            raise ValueError(
                "model.classifier is deepnca, whose bank has a row for every training image and "
                "none for mixtures of two; set augment.mixup and augment.cutmix to 0"
            )
        return self

    @model_validator(mode="after")
    def _anchoring_has_something_to_tie(self) -> Self:
        first = self.first_anchored_epoch
        if first is None:
            return self
        if first <= self.head.start_epoch:
            raise ValueError(
                f"head.anchored_share is {self.head.anchored_share} of {self.training.epochs} "
                f"epochs (training.epochs), so sub-centroids are tied to images after {first}; "
                f"they begin in epoch {self.head.start_epoch} (head.start_epoch) and need at least "
                "one epoch before they are tied"
            )
        return self

    @property
    def metric(self) -> str:
        """What the best epoch is chosen by."""
        return "miou" if self.task == "segmentation" else "top1"

    @property
    def head_settings(self) -> HeadSettings:
        """The settings of a head of sub-centroids."""
        is_scene = self.task == "segmentation"
        return self.head.settings(
            self.training.batch_size,
            rows_per_class=self.scene.pixels_per_class if is_scene else None,
            seed=self.training.seed,
            rival=self.rival.settings(),
        )

    @property
    def first_anchored_epoch(self) -> int | None:
        """Before which epoch, counted from 0, sub-centroids are tied to images; None for never."""
        if not self.head.anchored_share or self.model.classifier != "dnc":
            return None
        epochs = self.training.epochs
        return epochs - max(1, round(self.head.anchored_share * epochs))

    @classmethod
    def from_tree(cls, tree: object, *, where: str = "The recipe") -> "Recipe":
        """A recipe from nested mappings; what is wrong is told with its place."""
        if not isinstance(tree, Mapping):
            raise InvalidRecipe(f"{where} is {type(tree).__name__}; it must be a mapping of keys.")
        _require_known_keys(tree, cls, where, prefix="")
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise InvalidRecipe(f"{where}: {told(error)}") from error

    @classmethod
    def read(cls, name_or_path: str | Path) -> "Recipe":
        """A recipe that is shipped, by its name, or a YAML file."""
        path = recipe_path(name_or_path)
        return cls.from_tree(parsed(read_text(path), str(path)), where=str(path))

    def with_settings(self, settings: Iterable[str]) -> "Recipe":
        """The recipe with some fields set, each given as `section.field=value`."""
        values = {}
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals:
                raise InvalidRecipe(f"{setting!r} sets nothing; write it as section.field=value.")
            values[key.strip()] = parsed(value, setting)
        return self.with_values(values)

    def with_values(self, values: Mapping[str, object]) -> "Recipe":
        """The recipe with some fields set, by their full names."""
        tree = self.model_dump()
        for key, value in values.items():
            *sections, field = key.split(".")
            branch = tree
            for section in sections:
                inner = branch.get(section)
                if not isinstance(inner, dict):
                    raise InvalidRecipe(_unknown(key, _leaf_names(type(self))))
                branch = inner
            if field not in branch or isinstance(branch[field], dict):
                raise InvalidRecipe(_unknown(key, _leaf_names(type(self))))
            branch[field] = value
        return self.from_tree(tree, where="The settings")

    def with_path(self, path: str) -> "Recipe":
        """The recipe with its images somewhere else."""
        if self.data.kind == "digits":
            if path == "digits":
                return self
            raise InvalidRecipe(
                f"Recipe {self.name} is for the digits that scikit-learn ships (data.kind: digits) "
                f"and takes no images from {path}; leave it out, or take another recipe."
            )
        return self._with("data", "path", path)

    def with_start(self, checkpoint: str) -> "Recipe":
        """The recipe with the network of a checkpoint."""
        return self._with("model", "start_from", checkpoint)

    def with_network(self, name: str, *, projection: int | None, centring: str) -> "Recipe":
        """The recipe as it is in truth once a checkpoint has brought its own network."""
        brought = {"network": name, "projection": projection, "centring": centring}
        model = self.model.model_copy(update={**brought, "pretrained": False})
        return self.model_copy(update={"model": model})

    def with_epochs_for(self, images: int) -> "Recipe":
        """The recipe with as many epochs as have the steps that it asks for."""
        if self.training.iterations is None:
            return self
        batch = self.training.batch_size
        # As many batches as a loader makes of so many images: a small rest is left out.
        steps = images // batch if images >= WHOLE_BATCHES_FROM * batch else -(-images // batch)
        epochs = -(-self.training.iterations // max(1, steps))
        training = self.training.model_copy(update={"epochs": epochs, "iterations": None})
        return self.model_copy(update={"training": training})

    def with_absolute_paths(self) -> "Recipe":
        """The recipe with paths that mean the same from every folder."""
        tree = self.model_dump()
        for section, field in (("data", "path"), ("model", "start_from"), ("model", "pretrained")):
            path = tree[section][field]
            if isinstance(path, str):
                tree[section][field] = str(Path(path).absolute())
        coarse = self.data.coarse
        if coarse is not None and is_file_of_classes(coarse):
            tree["data"]["coarse"] = str(Path(coarse).expanduser().absolute())
        return self.from_tree(tree)

    def to_yaml(self, *, whole: bool = False) -> str:
        """The recipe as a file: what differs from the defaults, or all of it."""
        tree = self.model_dump(mode="json", exclude_defaults=not whole)
        return written(tree)

    def _with(self, section: str, field: str, value: str) -> "Recipe":
        tree = self.model_dump()
        tree[section][field] = value
        return self.from_tree(tree)

    def write(self, path: Path) -> None:
        """Writes the recipe, every field of it."""
        with whole_file(path) as unfinished:
            unfinished.write_text(self.to_yaml(whole=True), encoding="utf-8")


@dataclass(frozen=True)
class FieldInfo:
    """One field of a recipe, for help texts."""

    name: str
    default: object
    description: str
    allowed: tuple[str, ...] = ()


def recipe_fields(section: type[Section] = Recipe, prefix: str = "") -> list[FieldInfo]:
    """Every field of a recipe, by its full name."""
    fields = []
    for name, info in section.model_fields.items():
        inner = _section_of(info.annotation)
        if inner is not None:
            fields += recipe_fields(inner, f"{prefix}{name}.")
        else:
            fields.append(
                FieldInfo(
                    prefix + name, info.default, info.description or "", _words(info.annotation)
                )
            )
    return fields


def _words(annotation: Any) -> tuple[str, ...]:
    """The words that a field may hold, if it holds only certain ones."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return tuple(str(part) for part in parts)
    return tuple(word for part in parts for word in _words(part))


def _section_of(annotation: Any) -> type[Section] | None:
    is_section = isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias)
    return annotation if is_section and issubclass(annotation, Section) else None


def _leaf_names(section: type[Section]) -> list[str]:
    return [field.name for field in recipe_fields(section)]


def _require_known_keys(
    tree: Mapping[Any, Any], section: type[Section], where: str, prefix: str
) -> None:
    for key, value in tree.items():
        if key not in section.model_fields:
            names = [prefix + name for name in section.model_fields]
            raise InvalidRecipe(
                f"{where}: {_unknown(f'{prefix}{key}', names + _leaf_names(Recipe))}"
            )
        inner = _section_of(section.model_fields[key].annotation)
        if inner is not None and isinstance(value, Mapping):
            _require_known_keys(value, inner, where, prefix=f"{prefix}{key}.")


def _unknown(key: str, names: Iterable[str]) -> str:
    names = list(names)
    inside = [name for name in names if name.startswith(f"{key}.")]
    if inside:
        return (
            f"{key!r} is a section; name its fields by themselves, as in {inside[0]!r}. "
            "`dnc recipes --fields` lists them."
        )
    return f"there is no field {key!r}.{nearest(key, names)} `dnc recipes --fields` lists them."
