"""How well a classifier does on labelled images, summed up batch by batch."""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dnc.errors import InvalidData, InvalidInput, InvalidLabels, InvalidSetting
from dnc.evaluation.results import Calibration, ClassResult, Evaluation
from dnc.evaluation.validation import require_names, require_state, require_whole_numbers

TOP = 5


class Tally:
    """Sums of a classifier's successes over batches, from which its evaluation follows.

    Memory does not grow with the number of images: `(c c)` counts and a few numbers a bin. The
    scores may be on any device; the sums are on the CPU, in 64 bits.

    Args:
        classes: number of classes.
        bins: bins of equal width for the confidence.

    """

    def __init__(self, classes: int, *, bins: int = 15) -> None:
        if classes < 1:
            raise InvalidSetting(f"classes is {classes}; it must be at least 1.")
        if bins < 1:
            raise InvalidSetting(f"bins is {bins}; it must be at least 1.")
        self.classes = classes
        self.bins = bins
        # Or a tally made in inference mode could not be added to outside of it.
        with torch.inference_mode(False):
            self._sums = {
                "confusion": torch.zeros(classes, classes, dtype=torch.long),
                "undecided": torch.zeros(classes, dtype=torch.long),
                "within_top": torch.zeros((), dtype=torch.long),
                "loss": torch.zeros((), dtype=torch.double),
                "bin_images": torch.zeros(bins, dtype=torch.long),
                "bin_right": torch.zeros(bins, dtype=torch.long),
                "bin_confidence": torch.zeros(bins, dtype=torch.double),
            }

    @torch.no_grad()
    def add(self, scores: Tensor, labels: Tensor) -> None:
        """Takes in a batch: scores `(n c)` before the softmax, and the true class of each row.

        A class that cannot win scores -inf; a row in which no class can is undecided and wrong.
        Of equal scores the class with the lower number wins. A value that cannot be used raises
        before anything changes.
        """
        _require_scores(scores, self.classes)
        _require_labels(labels, len(scores), self.classes)
        labels = labels.to(scores.device, torch.long)
        logits = scores if scores.dtype == torch.double else scores.float()
        log_probability = logits.log_softmax(dim=1)
        rank = _ranks(logits, labels).cpu()
        loss = -log_probability.gather(1, labels[:, None])[:, 0].cpu()
        best, predicted = (values.cpu() for values in logits.max(dim=1))
        confidence = log_probability.amax(dim=1).exp().cpu()
        labels = labels.cpu()

        decided = best > -math.inf
        sums = self._sums
        sums["undecided"] += labels[~decided].bincount(minlength=self.classes)
        sums["within_top"] += (rank < TOP).sum()
        # Without an answer the softmax is 0 / 0; the true class was given no probability at all.
        sums["loss"] += torch.where(decided, loss.double(), math.inf).sum()

        labels, predicted, confidence = labels[decided], predicted[decided], confidence[decided]
        right = predicted == labels
        one = torch.ones_like(labels)
        inner_edges = torch.tensor(_edges(self.bins)[1:-1], dtype=torch.double)
        place = torch.bucketize(confidence.double(), inner_edges, right=True)
        sums["confusion"].index_put_((labels, predicted), one, accumulate=True)
        sums["bin_images"].index_add_(0, place, one)
        sums["bin_right"].index_add_(0, place, right.long())
        sums["bin_confidence"].index_add_(0, place, confidence.double())

    def state(self) -> dict[str, Tensor]:
        """A copy of the sums. Those of several processes may be added tensor by tensor."""
        return {name: value.clone() for name, value in self._sums.items()}

    def add_state(self, state: Mapping[str, Tensor]) -> None:
        """Adds the sums of another tally of the same classes and bins."""
        require_state(state, self._sums, alike="classes and bins")
        for name, own in self._sums.items():
            own += state[name].to(own.device)

    def result(self, class_names: Sequence[str]) -> Evaluation:
        """The evaluation of everything that was added."""
        require_names(class_names, self.classes)
        sums = self._sums
        confusion = sums["confusion"].clone()
        right, given = confusion.diag().double(), confusion.sum(dim=0)
        of_class = confusion.sum(dim=1) + sums["undecided"]
        images = int(of_class.sum())
        if not images:
            raise InvalidData("No image was evaluated; add at least one batch of scores first.")
        columns = (of_class, right / of_class, right / given, 2 * right / (of_class + given))
        rows = zip(class_names, *(column.tolist() for column in columns), strict=True)
        return Evaluation(
            images=images,
            undecided=int(sums["undecided"].sum()),
            top1=int(right.sum()) / images,
            top5=int(sums["within_top"]) / images if self.classes > TOP else None,
            mean_recall=float((right / of_class)[of_class > 0].mean()),
            mean_loss=float(sums["loss"]) / images,
            per_class=tuple(ClassResult(*row) for row in rows),
            confusion=confusion,
            calibration=_calibration(sums["bin_images"], sums["bin_right"], sums["bin_confidence"]),
        )


def _edges(bins: int) -> tuple[float, ...]:
    return tuple(edge / bins for edge in range(bins + 1))


def _calibration(
    counts: Int[Tensor, " bins"],
    right: Int[Tensor, " bins"],
    summed_confidence: Float[Tensor, " bins"],
) -> Calibration:
    accuracy = right.double() / counts
    confidence = summed_confidence / counts
    gap = (accuracy - confidence).abs()[counts > 0]
    weight = counts[counts > 0].double() / counts.sum()
    return Calibration(
        error=float((gap * weight).sum()) if len(gap) else math.nan,
        max_error=float(gap.max()) if len(gap) else math.nan,
        edges=_edges(len(counts)),
        counts=tuple(counts.tolist()),
        confidence=tuple(confidence.tolist()),
        accuracy=tuple(accuracy.tolist()),
    )


def _ranks(logits: Float[Tensor, "n c"], labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """How many classes come before the true one; all of them if it cannot win."""
    classes = logits.shape[1]
    own = logits.gather(1, labels[:, None])
    lower = torch.arange(classes, device=logits.device) < labels[:, None]
    ahead = ((logits > own) | ((logits == own) & lower)).sum(dim=1)
    return ahead.masked_fill(own[:, 0] == -math.inf, classes)


def _require_scores(scores: object, classes: int) -> None:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        came = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise InvalidInput(f"Scores are {came}; they must be a torch.Tensor of floating point.")
    if scores.ndim != 2 or scores.shape[1] != classes:
        raise InvalidInput(
            f"Scores have shape {tuple(scores.shape)}; a tally of {classes} classes takes "
            f"(n, {classes})."
        )
    allowed = scores < math.inf
    if not allowed.all():
        rows = int((~allowed).any(dim=1).sum())
        raise InvalidInput(
            f"Scores are NaN or +inf in {rows} of {len(scores)} rows; allowed are finite numbers, "
            "and -inf for a class that cannot win. Nothing was added; look for a diverged network "
            "or a corrupt input."
        )


def _require_labels(labels: Tensor, rows: int, classes: int) -> None:
    require_whole_numbers(labels, "Labels")
    if labels.shape != (rows,):
        raise InvalidLabels(
            f"Labels have shape {tuple(labels.shape)}; expected ({rows},), one for each row of "
            "the scores."
        )
    # In eight bits the number of classes itself could not be compared with.
    numbers = labels.long()
    wrong = numbers[(numbers < 0) | (numbers >= classes)]
    if len(wrong):
        raise InvalidLabels(
            f"{len(wrong)} labels are out of range, the first is {wrong[0]}. Allowed are 0 to "
            f"{classes - 1}; leave rows without a class out."
        )
