"""What sub-centroids stand for, as a picture of training images."""

import numpy as np
import torch
from matplotlib.figure import Figure

from dnc.centroids import Fidelity, SubCentroidHead, normalised
from dnc.data import Images
from dnc.data.pictures import Strip, strips_figure
from dnc.recognition import Recognizer
from dnc.training.features import Features

MOST_STRIPS, COLUMNS = 48, 10


def gallery_figure(
    recognizer: Recognizer, images: Images, features: Features, fidelity: Fidelity
) -> Figure:
    """The training images of its class that are nearest to each case; of many classes some.

    Args:
        recognizer: whose cases are drawn.
        images: the training images.
        features: of these, as the head sees them.
        fidelity: of the cases, for the number of images of each.

    """
    present = features.labels.unique().tolist()
    k = fidelity.held.shape[1]
    shown = present[:: -(-len(present) * k // MOST_STRIPS)]
    title = "The training images nearest to each case, the nearest first"
    if len(shown) < len(present):
        title += f"; {len(shown)} of {len(present):,} classes"
    strips = [
        strip for label in shown for strip in _strips(recognizer, label, images, features, fidelity)
    ]
    return strips_figure(images, strips, title)


@torch.no_grad()
def _strips(
    recognizer: Recognizer, label: int, images: Images, features: Features, fidelity: Fidelity
) -> list[Strip]:
    """A strip for each case of a class."""
    head = recognizer.model.head
    assert isinstance(head, SubCentroidHead)
    own = (features.labels == label).nonzero()[:, 0]
    similarity = normalised(features.rows[own]) @ head.centroids[label].cpu().T
    strips = []
    for k in head.occupied[label].nonzero()[:, 0].tolist():
        nearest = own[similarity[:, k].topk(min(COLUMNS, len(own))).indices]
        places = [int(np.flatnonzero(images.ids == number)[0]) for number in features.ids[nearest]]
        held = int(fidelity.held[label, k])
        strips.append(Strip(recognizer.case_name(label, k), f"{held:,} images", places))
    return strips
