"""How well a segmenter does on labelled images, summed up image by image."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dnc.errors import InvalidData, InvalidLabels, InvalidSetting
from dnc.evaluation.pixel_results import PixelClassResult, PixelEvaluation
from dnc.evaluation.validation import require_names, require_state, require_whole_numbers


class PixelTally:
    """Sums of a segmenter's successes over images, from which its evaluation follows.

    Memory does not grow with the number of images. The pixels may be on any device; the sums are
    on the CPU, in 64 bits.

    Args:
        classes: number of classes.

    """

    def __init__(self, classes: int) -> None:
        if classes < 1:
            raise InvalidSetting(f"classes is {classes}; it must be at least 1.")
        self.classes = classes
        # Or a tally made in inference mode could not be added to outside of it.
        with torch.inference_mode(False):
            self._sums = {
                "confusion": torch.zeros(classes, classes, dtype=torch.long),
                "undecided": torch.zeros(classes, dtype=torch.long),
                "ignored": torch.zeros((), dtype=torch.long),
                "images": torch.zeros((), dtype=torch.long),
            }

    @torch.no_grad()
    def add(self, predicted: Tensor, labels: Tensor) -> None:
        """Takes in the class given to each pixel and its true class, of any one shape.

        Of three or more axes the first counts images; fewer are one image. A label below 0 is a
        pixel that does not count, a prediction of -1 a pixel for which no class could win, which
        is wrong. A value that cannot be used raises before anything changes.
        """
        _require_pixels(predicted, labels, self.classes)
        c = self.classes
        labels = labels.to(predicted.device, torch.long)
        # Column 0 is for what is undecided, and behind the table comes what does not count: one
        # pass over the pixels, without picking any out.
        cell = labels * (c + 1) + predicted.long() + 1
        cell = cell.masked_fill(labels < 0, c * (c + 1))
        counts = cell.flatten().bincount(minlength=c * (c + 1) + 1).cpu()
        table = counts[:-1].view(c, c + 1)
        sums = self._sums
        sums["confusion"] += table[:, 1:]
        sums["undecided"] += table[:, 0]
        sums["ignored"] += counts[-1]
        sums["images"] += len(labels) if labels.ndim > 2 else min(labels.numel(), 1)

    def state(self) -> dict[str, Tensor]:
        """A copy of the sums. Those of several processes may be added tensor by tensor."""
        return {name: value.clone() for name, value in self._sums.items()}

    def add_state(self, state: Mapping[str, Tensor]) -> None:
        """Adds the sums of another tally of the same classes."""
        require_state(state, self._sums, alike="classes")
        for name, own in self._sums.items():
            own += state[name].to(own.device)

    def result(self, class_names: Sequence[str]) -> PixelEvaluation:
        """The evaluation of everything that was added."""
        require_names(class_names, self.classes)
        sums = self._sums
        confusion = sums["confusion"].clone()
        right, given = confusion.diag().double(), confusion.sum(dim=0)
        of_class = confusion.sum(dim=1) + sums["undecided"]
        pixels = int(of_class.sum())
        if not pixels:
            raise InvalidData(
                f"No pixel counts in {int(sums['images'])} images, {int(sums['ignored'])} are "
                "ignored; add at least one image with labels of 0 or more first."
            )
        iou, accuracy = right / (of_class + given - right), right / of_class
        occurs, has_pixels = of_class + given > 0, of_class > 0
        columns = (of_class, iou, accuracy, right / given)
        rows = zip(class_names, *(column.tolist() for column in columns), strict=True)
        return PixelEvaluation(
            images=int(sums["images"]),
            pixels=pixels,
            ignored_pixels=int(sums["ignored"]),
            undecided=int(sums["undecided"].sum()),
            miou=float(iou[occurs].mean()),
            mean_accuracy=float(accuracy[has_pixels].mean()),
            pixel_accuracy=int(right.sum()) / pixels,
            frequency_weighted_iou=float((iou * of_class)[has_pixels].sum()) / pixels,
            per_class=tuple(PixelClassResult(*row) for row in rows),
            confusion=confusion,
        )


def _require_pixels(predicted: Tensor, labels: Tensor, classes: int) -> None:
    require_whole_numbers(predicted, "Predictions")
    require_whole_numbers(labels, "Labels")
    if predicted.shape != labels.shape:
        raise InvalidLabels(
            f"Predictions have shape {tuple(predicted.shape)}, labels {tuple(labels.shape)}; there "
            "must be one of each for every pixel. Bring one to the size of the other first."
        )
    if not labels.numel():
        return
    # As numbers of Python: in eight bits the number of classes could not be compared with.
    highest = int(labels.amax())
    if highest >= classes:
        raise InvalidLabels(
            f"Labels reach {highest}; allowed are 0 to {classes - 1}, and -100 or another number "
            "below 0 for pixels that do not count."
        )
    low, high = (int(end) for end in predicted.aminmax())
    if low < -1 or high >= classes:
        raise InvalidLabels(
            f"Predictions reach from {low} to {high}; allowed are 0 to {classes - 1}, and -1 for "
            "pixels for which no class could win."
        )
