"""The evaluation of a segmenter as files."""

from pathlib import Path

from dnc.evaluation.pixel_pictures import pixel_classes_figure, pixel_confusion_figure
from dnc.evaluation.pixel_results import PixelEvaluation
from dnc.evaluation.writing import write_folder

MOST_CONFUSIONS = 10_000


def write_pixel_evaluation(evaluation: PixelEvaluation, folder: Path) -> None:
    """Writes figures (JSON), a table by class and the confusions (CSV), and pictures of both."""
    classes = [(c.name, c.pixels, c.iou, c.accuracy, c.precision) for c in evaluation.per_class]
    write_folder(
        folder,
        figures=evaluation.to_dict(),
        tables={
            "classes.csv": [("class", "pixels", "iou", "accuracy", "precision"), *classes],
            "confusions.csv": [
                ("true", "predicted", "pixels"),
                *evaluation.most_confused(MOST_CONFUSIONS),
            ],
        },
        pictures={
            "confusion.png": pixel_confusion_figure(evaluation),
            "classes.png": pixel_classes_figure(evaluation),
        },
    )
