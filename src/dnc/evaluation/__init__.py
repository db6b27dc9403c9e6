"""How well a classifier does: accuracy, confusion and calibration, in numbers and pictures."""

from dnc.evaluation.evaluating import evaluate, write_evaluation
from dnc.evaluation.metrics import Tally
from dnc.evaluation.results import Calibration, ClassResult, Evaluation, Mistake

__all__ = [
    "Calibration",
    "ClassResult",
    "Evaluation",
    "Mistake",
    "Tally",
    "evaluate",
    "write_evaluation",
]
