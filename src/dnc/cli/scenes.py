"""What the commands do with a segmenter."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from dnc.cli.bars import counted
from dnc.cli.figures import pixel_classes_table, pixel_table
from dnc.data import BadFile, Scenes
from dnc.errors import InvalidInput, InvalidSetting, UnreadableImage
from dnc.evaluation import (
    coloured,
    comparison_sheet,
    label_image,
    legend_of,
    overlaid,
    write_pixel_evaluation,
)
from dnc.evaluation.scene_evaluating import evaluate_scenes
from dnc.files import whole_file
from dnc.models import Views
from dnc.recognition import class_map
from dnc.scene_recognition import SceneRecognizer, Segmentation
from dnc.training.results import part_to_evaluate, split_of_training, was_trained_on

COMPARED = "scenes.png"


class SceneCommand:
    """A segmenter as a command holds it, with what it was told about how to look at images."""

    def __init__(
        self,
        console: Console,
        recognizer: SceneRecognizer,
        *,
        views: Views | None,
        workers: int | None = None,
    ) -> None:
        self.console = console
        self.recognizer = recognizer
        self.views = views
        self.workers = workers
        self.scenes: Scenes | None = None

    def evaluate(
        self,
        checkpoint: Path,
        data: Path,
        *,
        kind: str | None,
        part: str | None,
        output: Path | None,
    ) -> list[BadFile]:
        """Measures it, prints the figures and writes them to a folder."""
        splits = split_of_training(self.recognizer, data, kind=kind, wanted=part)
        chosen, scenes = part_to_evaluate(splits, data, wanted=part, recognizer=self.recognizer)
        self.scenes = scenes
        bad_files = list(splits.set_aside)
        with counted(self.console, "evaluating") as on_progress:
            evaluation = evaluate_scenes(
                self.recognizer,
                scenes,
                views=self.views,
                workers=self.workers,
                on_progress=on_progress,
                on_bad_file=bad_files.append,
            )
        self.console.print(pixel_table(str(checkpoint), {chosen: evaluation}))
        self.console.print(pixel_classes_table(evaluation))
        if was_trained_on(self.recognizer, scenes):
            self.console.print("The model was trained on these very images.", style="yellow")
        if output is not None:
            write_pixel_evaluation(evaluation, output)
        return bad_files

    def write_comparisons(
        self, folder: Path, count: int, models: Sequence[SceneRecognizer], names: Sequence[Path]
    ) -> None:
        """Writes a sheet of some scenes: input, truth, and what each model makes of it."""
        scenes, first = self.scenes, models[0]
        assert scenes is not None
        titles = _titles(models, names)
        numbers = [np.array(class_map(first.classes, one.classes)) for one in models]
        rows, maps = [], []
        chosen = np.linspace(0, len(scenes) - 1, min(count, len(scenes))).round().astype(int)
        for position in dict.fromkeys(chosen.tolist()):
            try:
                image, mask = scenes.read(position), scenes.read_mask(position)
            except UnreadableImage:
                continue
            known = np.array([*class_map(first.classes, scenes.classes), -1])
            truth = known[np.maximum(mask, -1)]
            found = [
                number[one.labels(image, views=self.views)]
                for one, number in zip(models, numbers, strict=True)
            ]
            maps += [truth, *found]
            rows.append(
                [
                    ("input", image),
                    ("truth", coloured(truth, first.colours)),
                    *(
                        (title, coloured(labels, first.colours))
                        for title, labels in zip(titles, found, strict=True)
                    ),
                ]
            )
        if rows:
            sheet = comparison_sheet(rows, legend=legend_of(maps, first.classes, first.colours))
            with whole_file(folder / COMPARED) as unfinished:
                sheet.save(unfinished, "PNG")

    def predict(self, paths: Iterable[Path], folder: Path) -> int:
        """Writes label images and overlays of images; how many could not be read."""
        if folder.exists() and not folder.is_dir():
            raise InvalidSetting(f"{folder} is a file; give a folder with --output.")
        folder.mkdir(parents=True, exist_ok=True)
        made, failed, taken = 0, 0, set[str]()
        for one in self.recognizer.segmentations(paths, views=self.views):
            made += 1
            if isinstance(one, UnreadableImage):
                failed += 1
                told = f"Set aside: {one.path}: {one.reason}"
                self.console.print(told, style="yellow", markup=False, soft_wrap=True)
                continue
            self._write(one, folder / _free_name(Path(one.source).stem, taken))
            if made <= 10:
                told = _told(self.recognizer, one)
                self.console.print(told, markup=False, highlight=False, soft_wrap=True)
        if not made:
            raise InvalidInput("No image came.")
        self.console.print(
            f"Written: {made - failed} label images and overlays in {folder}",
            highlight=False,
            soft_wrap=True,
        )
        return made if failed == made else 0

    def _write(self, one: Segmentation, place: Path) -> None:
        colours = self.recognizer.colours
        for ending, picture in (
            (".labels.png", label_image(one.labels, colours)),
            (".overlay.png", overlaid(one.image, one.labels, colours)),
        ):
            with whole_file(place.with_name(place.name + ending)) as unfinished:
                picture.save(unfinished, "PNG")


def _titles(models: Sequence[SceneRecognizer], names: Sequence[Path]) -> list[str]:
    """What tells the models apart: the kind of classifier if it does, else their folders."""
    kinds = ["DNC" if one.model.is_dnc else "softmax" for one in models]
    return kinds if len(set(kinds)) == len(kinds) else [str(name) for name in names]


def _told(recognizer: SceneRecognizer, one: Segmentation) -> str:
    """The classes of an image, the largest first, in one line."""
    labels, pixels = np.unique(one.labels, return_counts=True)
    order = np.argsort(-pixels, kind="stable")[:5]
    shares = ", ".join(
        f"{recognizer.classes[labels[i]]} {100 * pixels[i] / one.labels.size:.1f} %" for i in order
    )
    more = f", {len(labels) - 5} more" if len(labels) > 5 else ""
    return f"{one.source}: {shares}{more}"


def _free_name(stem: str, taken: set[str]) -> str:
    """The name, or the first of `name-2`, `name-3`, ... that no other image has."""
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name
