"""A recognizer on a set of images: what it gets right, in figures, tables and pictures."""

from collections.abc import Callable
from pathlib import Path

import torch

from dnc.data import BadFile, Images, loader
from dnc.errors import InvalidData
from dnc.evaluation.metrics import Tally
from dnc.evaluation.pictures import confusion_figure, per_class_figure, reliability_figure
from dnc.evaluation.results import Evaluation
from dnc.evaluation.writing import write_folder
from dnc.recognition import Recognizer, class_map


@torch.no_grad()
def evaluate(
    recognizer: Recognizer,
    images: Images,
    *,
    batch_size: int = 64,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_bad_file: Callable[[BadFile], None] | None = None,
) -> Evaluation:
    """How well a recognizer does on images whose classes it knows by name.

    `on_progress` is told how many batches are done, of how many; `on_bad_file` of each file that
    could not be read, which then counts neither as right nor as wrong.
    """
    if not len(images):
        raise InvalidData(f"There are no images to evaluate on in {images.root}.")
    numbers = torch.tensor(class_map(recognizer.classes, images.classes))
    model = recognizer.model.eval()
    tally = Tally(len(recognizer.classes))
    batches = loader(images, recognizer.preprocessing, batch_size=batch_size, workers=workers)
    for done, batch in enumerate(batches, start=1):
        if len(batch.labels):
            scores = model(batch.images.to(recognizer.device))
            tally.add(scores.float(), numbers[batch.labels].to(scores.device))
        if on_progress is not None:
            on_progress(done, len(batches))
    if on_bad_file is not None:
        for bad in batches.bad_files:
            on_bad_file(bad)
    return tally.result(recognizer.classes)


def write_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Writes figures (JSON), a table by class and the confusions (CSV), and pictures of each."""
    classes = [(c.name, c.images, c.recall, c.precision, c.f1) for c in evaluation.per_class]
    write_folder(
        folder,
        figures=evaluation.to_dict(),
        tables={
            "classes.csv": [("class", "images", "recall", "precision", "f1"), *classes],
            "confusions.csv": [("true", "predicted", "images"), *evaluation.most_confused(10_000)],
        },
        pictures={
            "confusion.png": confusion_figure(evaluation),
            "reliability.png": reliability_figure(evaluation),
            "classes.png": per_class_figure(evaluation),
        },
    )
