"""How well a classifier or a segmenter does, in numbers and pictures."""

from dnc.evaluation.evaluating import evaluate, write_evaluation
from dnc.evaluation.metrics import Tally
from dnc.evaluation.pixel_results import PixelClassResult, PixelEvaluation, PixelMistake
from dnc.evaluation.pixel_writing import write_pixel_evaluation
from dnc.evaluation.pixels import PixelTally
from dnc.evaluation.results import Calibration, ClassResult, Evaluation, Mistake
from dnc.evaluation.scenes import (
    coloured,
    comparison_sheet,
    label_image,
    legend_of,
    overlaid,
    side_by_side,
)

__all__ = [
    "Calibration",
    "ClassResult",
    "Evaluation",
    "Mistake",
    "PixelClassResult",
    "PixelEvaluation",
    "PixelMistake",
    "PixelTally",
    "Tally",
    "coloured",
    "comparison_sheet",
    "evaluate",
    "label_image",
    "legend_of",
    "overlaid",
    "side_by_side",
    "write_evaluation",
    "write_pixel_evaluation",
]
