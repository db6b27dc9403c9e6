"""What two segmenters make of scenes, without the scenes: their classes, and the cases of one.

`python -m benchmarks.label_maps DNC SOFTMAX IMAGE [IMAGE ...] --output labels.png`

For documentation on scenes that may not be shown there.
"""

import argparse
from pathlib import Path

from PIL import Image

from dnc.data import read_image
from dnc.evaluation import comparison_sheet, legend_of
from dnc.evaluation.scenes import coloured
from dnc.explanation.scene_pictures import with_cases
from dnc.explanation.scenes import SceneExplainer
from dnc.files import whole_file
from dnc.training.checkpoint import load_segmenter


def main() -> None:
    """Writes the sheet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dnc", type=Path, help="a segmenter with cases")
    parser.add_argument("softmax", type=Path, help="one without")
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    by_cases, other = load_segmenter(given.dnc), load_segmenter(given.softmax)
    explainer = SceneExplainer(by_cases)
    rows, maps = [], []
    for path in given.images:
        image = read_image(path)
        decided = by_cases.segmented(str(path), image)
        labels = other.labels(image)
        blank = Image.new("RGB", image.size, (128, 128, 128))
        numbers = explainer.numbers(decided)
        rows.append(
            [
                ("softmax", coloured(labels, other.colours)),
                ("DNC", coloured(decided.labels, by_cases.colours)),
                ("its cases", with_cases(blank, decided.labels, numbers, explainer.colours)),
            ]
        )
        maps += [labels, decided.labels]
    legend = legend_of(maps, by_cases.classes, by_cases.colours)
    with whole_file(given.output) as unfinished:
        comparison_sheet(rows, legend=legend).save(unfinished, "PNG")


if __name__ == "__main__":
    main()
