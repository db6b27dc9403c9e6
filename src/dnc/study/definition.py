"""A study: one recipe, the settings to compare, the seeds, and the number to compare them by."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from dnc.errors import InvalidModel, InvalidRecipe, InvalidStudy
from dnc.models.networks import require_known
from dnc.study.paper import Published
from dnc.training.recipe import Recipe
from dnc.training.recipe_text import nearest, parsed, read_text, told
from dnc.training.section import Section

SHIPPED = Path(__file__).parents[1] / "studies"

Scale = Literal["laptop", "paper"]

# Of classifiers, of models of coarse classes, of segmenters, and of all: how long they trained.
Metric = Literal[
    "top1",
    "top5",
    "mean_recall",
    "mean_loss",
    "calibration_error",
    "induction",
    "purity",
    "mutual_information",
    "miou",
    "mean_accuracy",
    "pixel_accuracy",
    "hours",
]

# The settings of one row: full names of a recipe's fields, with their values; and `recipe`, for a
# row that has one of its own.
Settings = dict[str, Any]


def no_change(value: Any) -> Any:
    """A row with nothing behind its name is the recipe as it is."""
    if isinstance(value, dict):
        return {name: {} if own is None else own for name, own in value.items()}
    return value


def counted_seeds(value: Any) -> Any:
    """A number stands for so many seeds."""
    if type(value) is int and 0 < value <= 10_000:
        return tuple(range(value))
    if not isinstance(value, list | tuple):
        raise ValueError("give how many, 1 or more, or a list such as [0, 1, 2]")
    if not value or not all(type(seed) is int and 0 <= seed < 2**32 for seed in value):
        raise ValueError("seeds are whole numbers from 0 on, at least one of them")
    if len(set(value)) < len(value):
        raise ValueError("a seed is there twice")
    return value


class PaperScale(Section):
    """What is other where a study is made at the paper's own scale."""

    recipe: str | None = Field(None, description="in place of the study's own")
    settings: Settings = Field({}, description="in place of the study's own")
    rows: dict[str, Settings] = Field({}, description="in place of the study's own")
    grid: dict[str, list[Any]] = Field({}, description="in place of the study's own")
    seeds: tuple[int, ...] = Field((0, 1, 2), description="of all rows")
    images: str | None = Field(None, description="in place of the study's own")

    _nothing = field_validator("rows", mode="before")(no_change)
    _count = field_validator("seeds", mode="before")(counted_seeds)


class Study(Section):
    """What is compared: rows that are named, and all combinations of a grid."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    about: str = Field("", description="the question that it answers")
    recipe: str = Field(description="a shipped recipe, or a file beside the study")
    settings: Settings = Field({}, description="fields of the recipe, set for all rows")
    rows: dict[str, Settings] = Field({}, description="fields of each row, by its name")
    grid: dict[str, list[Any]] = Field(
        {}, description="values of fields; each combination is a row"
    )
    seeds: tuple[int, ...] = Field(
        (0, 1, 2), description="of all rows; a single number stands for so many seeds"
    )
    metric: Metric = Field("top1", description="what the rows are compared by")
    also: tuple[Metric, ...] = Field((), description="further metrics, shown beside it")
    images: str | None = Field(
        None, description="test, validation, ...; left out: the first that the runs have"
    )
    reference: str | None = Field(None, description="the row that the others are compared with")
    published: Published | None = Field(None, description="numbers of the paper beside the rows")
    paper_scale: PaperScale | None = Field(
        None, description="the recipes and settings of --scale paper"
    )

    @field_validator("name")
    @classmethod
    def _is_a_folder(cls, value: str) -> str:
        if not re.fullmatch(r"\w[\w.-]*", value):
            raise ValueError("use letters, digits, '.', '_' and '-': it becomes a folder")
        if value == "runs":
            raise ValueError("that is the folder that the runs of all studies are in")
        return value

    @field_validator("grid")
    @classmethod
    def _has_values(cls, value: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name, values in value.items():
            if not values:
                raise ValueError(f"{name} has no values; give some, or leave it out")
        return value

    _nothing = field_validator("rows", mode="before")(no_change)
    _count = field_validator("seeds", mode="before")(counted_seeds)

    @classmethod
    def read(cls, name_or_path: str | Path) -> "Study":
        """A study that is shipped, by its name, or a YAML file."""
        path = study_path(name_or_path)
        try:
            tree = parsed(read_text(path), str(path))
        except InvalidRecipe as error:
            raise InvalidStudy(str(error)) from error
        if not isinstance(tree, Mapping):
            came = "is empty" if tree is None else "has no fields"
            raise InvalidStudy(f"{path} {came}; `dnc study digits-subcentroids --show` shows one.")
        for key in tree:
            if key not in cls.model_fields:
                raise InvalidStudy(
                    f"{path}: there is no field {key!r}.{nearest(str(key), cls.model_fields)} "
                    f"A study has {', '.join(cls.model_fields)}."
                )
        try:
            study = cls.model_validate(tree)
        except ValidationError as error:
            raise InvalidStudy(f"{path}: {told(error)}") from error
        study = study._beside(path.parent)
        study.planned()  # names of fields and values are checked before anything runs
        if study.published is not None:
            strange = [row for row in study.published.rows if row not in study.row_names()]
            if strange:
                raise InvalidStudy(f"{path}: published has {strange[0]!r}, which is no row.")
            for row in study.published.rows:
                study.published.result(row)
            unseen = [metric for metric in study.published.also if metric not in study.also]
            if unseen:
                raise InvalidStudy(
                    f"{path}: published.also has {unseen[0]!r}, which the study does not show; "
                    "add it to also."
                )
        return study

    def _beside(self, folder: Path) -> "Study":
        """The study with the recipes that are files found from its own folder."""

        def found(recipe: str) -> str:
            return str(folder / recipe) if recipe.endswith((".yaml", ".yml")) else recipe

        def rows(given: dict[str, Settings]) -> dict[str, Settings]:
            return {
                name: {**own, "recipe": found(str(own["recipe"]))} if "recipe" in own else own
                for name, own in given.items()
            }

        scale = self.paper_scale
        if scale is not None:
            recipe = None if scale.recipe is None else found(scale.recipe)
            scale = scale.model_copy(update={"recipe": recipe, "rows": rows(scale.rows)})
        own = {"recipe": found(self.recipe), "rows": rows(self.rows), "paper_scale": scale}
        return self.model_copy(update=own)

    def at_scale(self, scale: Scale) -> "Study":
        """The study with the recipes and settings of a scale; as it is, it is for a laptop."""
        if scale == "laptop":
            return self
        if self.paper_scale is None:
            raise InvalidStudy(
                f"Study {self.name} has no paper_scale; it is made at the scale of a laptop alone."
            )
        own = self.paper_scale
        changed = {name: getattr(own, name) for name in ("settings", "rows", "grid", "seeds")}
        changed |= {"recipe": own.recipe or self.recipe, "images": own.images}
        whole = self.model_copy(update={**changed, "name": f"{self.name}-paper-scale"})
        if whole.reference not in whole.all_rows():
            whole = whole.model_copy(update={"reference": None})
        whole.planned()
        return whole

    def row_names(self) -> set[str]:
        """The rows of all scales."""
        names = set(self.all_rows())
        return names if self.paper_scale is None else names | set(self.at_scale("paper").all_rows())

    def all_rows(self) -> dict[str, Settings]:
        """The settings of each row, by its name."""
        rows = {name: {**self.settings, **own} for name, own in self.rows.items()}
        for values in itertools.product(*self.grid.values()) if self.grid else ():
            chosen = dict(zip(self.grid, values, strict=True))
            name = _row_name(chosen)
            if name in rows:
                raise InvalidStudy(f"Study {self.name} has two rows called {name!r}.")
            rows[name] = {**self.settings, **chosen}
        if not rows:
            rows[self.name] = self.settings
        return rows

    def planned(self, path: str | None = None) -> tuple["Run", ...]:
        """Every run of the study: all rows with one seed, then all rows with the next."""
        rows = self._recipes()
        if self.reference is not None and self.reference not in rows:
            raise InvalidStudy(
                f"The reference of study {self.name} is {self.reference!r}; its rows are "
                f"{', '.join(map(repr, rows))}."
            )
        sets = {"test", "validation", *(s for row in rows.values() for s in row.data.evaluate_on)}
        if self.images is not None and self.images not in sets:
            raise InvalidStudy(
                f"Study {self.name} compares by {self.images!r} images; runs are evaluated on "
                f"{', '.join(sorted(sets))}."
            )
        for name, recipe in rows.items():
            if path is not None and recipe.data.path is not None:
                raise InvalidStudy(
                    f"Row {name!r} has images of its own (data.path: {recipe.data.path}); leave "
                    f"the argument {path} out."
                )
        runs = []
        for seed in self.seeds:
            for name, recipe in rows.items():
                whole = recipe.with_values({"training.seed": seed})
                runs.append(Run(name, seed, whole if path is None else whole.with_path(path)))
        return tuple(runs)

    def _recipes(self) -> dict[str, Recipe]:
        """The recipe of each row, with names and values checked."""
        base = Recipe.read(self.recipe)
        try:
            base.with_values(self.settings)
        except InvalidRecipe as error:
            raise InvalidStudy(f"Study {self.name}: {error}") from error
        rows = {}
        for name, whole in self.all_rows().items():
            settings = dict(whole)
            if "training.seed" in settings:
                raise InvalidStudy(f"Row {name!r} sets training.seed; that is what seeds are for.")
            try:
                named = settings.pop("recipe", None)
                recipe = (base if named is None else Recipe.read(named)).with_values(settings)
                if recipe.model.start_from is None:
                    require_known(recipe.model.network)
            except (InvalidRecipe, InvalidModel) as error:
                raise InvalidStudy(f"Row {name!r} of study {self.name}: {error}") from error
            if recipe.training.nodes > 1:
                raise InvalidStudy(f"Row {name!r} asks for several machines; a study has one.")
            rows[name] = recipe
        return rows

    @property
    def higher_is_better(self) -> bool:
        """Whether the metric is one of success."""
        return self.metric not in ("mean_loss", "calibration_error", "hours")


@dataclass(frozen=True)
class Run:
    """One training of a study: a row with a seed."""

    row: str
    seed: int
    recipe: Recipe

    def with_values(self, values: Settings) -> "Run":
        """The run with other values of some fields."""
        return replace(self, recipe=self.recipe.with_values(values))


def shipped_studies() -> dict[str, Path]:
    """The studies that come with dnc, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def study_path(name_or_path: str | Path) -> Path:
    """The file of a shipped study, or the file that was named."""
    shipped = shipped_studies()
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    path = Path(name_or_path)
    if path.is_file():
        return path
    if path.suffix in (".yaml", ".yml"):
        raise InvalidStudy(f"There is no file {path}. `dnc study list` lists what is shipped.")
    longer = [name for name in shipped if name.startswith(f"{name_or_path}-")]
    meant = f" There are {' and '.join(longer)}." if longer else nearest(str(name_or_path), shipped)
    raise InvalidStudy(
        f"There is no study {str(name_or_path)!r}.{meant} "
        "`dnc study list` lists those that are shipped; a file of your own ends in .yaml."
    )


def _row_name(chosen: Settings) -> str:
    return ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in chosen.items())
