"""A map of features and cases in the plane: what is near each other there is near in cosine."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits
from torch import Tensor

from dnc.report.looking import Looked

MOST_IMAGES, MOST_CASES = 1500, 800
DIMENSIONS, ITERATIONS = 50, 500


@dataclass(frozen=True)
class Layout:
    """Places in the unit square.

    Attributes:
        rows: images that are shown.
        row_places: where they are, `(n 2)`.
        cases: cases that are shown, as class and number.
        case_places: where they are, `(m 2)`.
    """

    rows: list[int]
    row_places: NDArray[np.float64]
    cases: list[tuple[int, int]]
    case_places: NDArray[np.float64]


def layout(
    looked: Looked, centroids: Float[Tensor, "c k d"], cases: list[tuple[int, int]]
) -> Layout:
    """A map by t-SNE, of some images and cases if there are many; the same in each run."""
    rng = np.random.default_rng(0)
    rows = np.arange(len(looked))
    if len(rows) > MOST_IMAGES:
        rows = np.sort(rng.choice(rows, MOST_IMAGES, replace=False))
    if len(cases) > MOST_CASES:
        chosen = np.sort(rng.choice(len(cases), MOST_CASES, replace=False))
        cases = [cases[i] for i in chosen]
    shown = torch.stack([centroids[c, k] for c, k in cases])
    points = torch.cat([looked.x[torch.from_numpy(rows)], shown]).double().numpy()
    places = _flat(points)
    low, high = places.min(axis=0), places.max(axis=0)
    places = (places - low) / np.where(high > low, high - low, 1.0)
    return Layout(rows.tolist(), places[: len(rows)], cases, places[len(rows) :])


def _flat(points: NDArray[np.float64]) -> NDArray[np.float64]:
    n, d = points.shape
    fewer = min(DIMENSIONS, n, d)
    if fewer < 2:
        return np.stack([np.arange(n, dtype=np.float64), np.zeros(n)], axis=1)
    reduced = PCA(fewer, random_state=0).fit_transform(points)
    if n < 20:
        return np.asarray(reduced[:, :2], dtype=np.float64)
    tsne = TSNE(perplexity=min(30.0, n / 4), init="pca", max_iter=ITERATIONS, random_state=0)
    with threadpool_limits(1):  # so few points are slower with more, and the map would differ
        return np.asarray(tsne.fit_transform(reduced), dtype=np.float64)
