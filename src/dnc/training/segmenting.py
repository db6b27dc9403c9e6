"""A run that trains a segmenter of scenes."""

from collections.abc import Callable
from pathlib import Path

import torch
from lightning.pytorch import Callback

from dnc.centroids import Fidelity, SubCentroidHead
from dnc.data import BadFile, Scenes, SceneSplits, open_scenes
from dnc.evaluation import write_pixel_evaluation
from dnc.evaluation.scene_evaluating import evaluate_scenes
from dnc.files import whole_file
from dnc.scene_recognition import AnyRecognizer, SceneRecognizer
from dnc.training.anchoring import Anchoring, refresh_kept_
from dnc.training.building import recipe_in_truth
from dnc.training.casebase import write_case_table
from dnc.training.checkpoint import MODEL, load_segmenter, save
from dnc.training.features import Features
from dnc.training.job import Finished, Job, Result
from dnc.training.loading import SceneData
from dnc.training.recipe import Recipe
from dnc.training.results import case_figures, chosen_checkpoint, evaluation_sets, file_name
from dnc.training.scene_building import new_scene_recognizer, resumed_scene_recognizer
from dnc.training.scene_casebase import with_scene_cases
from dnc.training.scene_features import ShownScenes
from dnc.training.scene_gallery import scene_gallery_figure
from dnc.training.scene_module import SegmenterTraining


class Segmenting(Job):
    """Trains a segmenter."""

    splits: SceneSplits

    def __init__(self, recipe: Recipe, splits: SceneSplits) -> None:
        super().__init__(recipe, splits)
        self.sets: dict[str, Scenes] = {}

    def new_recognizer(self) -> SceneRecognizer:
        """A segmenter, fresh or on the network of a checkpoint."""
        return self._known(new_scene_recognizer(self.recipe, self.splits))

    def resumed_recognizer(self, last: Path) -> SceneRecognizer:
        """The segmenter of the last checkpoint."""
        return self._known(resumed_scene_recognizer(self.recipe, last))

    def prepare(self, recognizer: AnyRecognizer) -> None:
        """Opens the sets that it is evaluated on."""
        assert isinstance(recognizer, SceneRecognizer)
        self.sets = evaluation_sets(
            self.recipe, self.splits, recognizer.classes, opened=open_scenes
        )

    def data(self, recognizer: AnyRecognizer) -> SceneData:
        """Batches of squares, and whole scenes to validate on."""
        assert isinstance(recognizer, SceneRecognizer)
        return SceneData(self.recipe, self.splits, recognizer.preprocessing)

    def module(self, recognizer: AnyRecognizer) -> SegmenterTraining:
        """A row for each position."""
        assert isinstance(recognizer, SceneRecognizer)
        return SegmenterTraining(recognizer, self.recipe)

    def callbacks(self) -> list[Callback]:
        """Anchoring, if the recipe asks for it."""
        if self.recipe.first_anchored_epoch is None:
            return []
        return [Anchoring(self.recipe, self._shown_to)]

    def finish(
        self, folder: Path, *, device: str, on_bad_file: Callable[[BadFile], None]
    ) -> Finished:
        """Settles or anchors what is kept, evaluates it, and keeps its cases with it."""
        recognizer = load_segmenter(chosen_checkpoint(folder), device=device)
        save(recognizer, folder / MODEL)  # so that it is there if the evaluation is interrupted
        head = recognizer.model.head
        is_anchored = self.recipe.first_anchored_epoch is not None
        if is_anchored:
            refresh_kept_(recognizer, self._shown_to(recognizer), folder)
        seen = None
        if isinstance(head, SubCentroidHead):
            seen = self._shown_to(recognizer).features(recognizer.model, divided=False)
            for bad in seen.bad_files:
                on_bad_file(bad)
            if self.recipe.head.settle and not is_anchored:
                head.settle(seen.rows.to(head.centroids.device), seen.labels.to(device))
                save(recognizer, folder / MODEL)
        results = self._evaluated(recognizer, folder, on_bad_file)
        cases = {} if seen is None else self._described(recognizer, seen, folder)
        return Finished(results, cases)

    def _evaluated(
        self,
        recognizer: SceneRecognizer,
        folder: Path,
        on_bad_file: Callable[[BadFile], None],
    ) -> tuple[Result, ...]:
        results = []
        for name, scenes in self.sets.items():
            evaluation = evaluate_scenes(
                recognizer, scenes, workers=self.recipe.data.workers, on_bad_file=on_bad_file
            )
            write_pixel_evaluation(evaluation, folder / "evaluation" / file_name(name))
            results.append(Result(name, evaluation))
            recognizer.notes.setdefault("results", {})[name] = evaluation.miou
        save(recognizer, folder / MODEL)
        return tuple(results)

    def _described(
        self, recognizer: SceneRecognizer, seen: Features, folder: Path
    ) -> dict[str, float]:
        head = recognizer.model.head
        assert isinstance(head, SubCentroidHead)
        with torch.no_grad():
            found = Fidelity.of(head, seen.rows, seen.labels)
        recognizer = with_scene_cases(recognizer, self.splits, seen)
        save(recognizer, folder / MODEL)
        write_case_table(recognizer, folder / "cases.csv")
        with whole_file(folder / "cases.png") as unfinished:
            scene_gallery_figure(recognizer).savefig(unfinished, dpi=110, format="png")
        return case_figures(head, found)

    def _shown_to(self, recognizer: SceneRecognizer) -> ShownScenes:
        assert self.splits.train is not None
        return ShownScenes(self.splits.train, recognizer, self.recipe.data.workers)

    def _known(self, recognizer: SceneRecognizer) -> SceneRecognizer:
        assert recognizer.network is not None
        self.recipe = recipe_in_truth(self.recipe, recognizer.network)
        return recognizer
