"""The scikit-learn face of the classifier, for features that already exist."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from dnc.centroids.assignment import Assign, sinkhorn
from dnc.centroids.decision import nearest_cases
from dnc.centroids.segments import Bags
from dnc.centroids.similarity import (
    class_scores,
    normalised,
    query_blocks,
    similarities,
    similarity_to_own_class,
)
from dnc.centroids.update import (
    ClusterMeans,
    cluster_means,
    directions,
    nearest_rows,
    running_mean,
    seeded,
)
from dnc.centroids.validation import numbers_per_class, require_settings
from dnc.errors import InvalidLabels, InvalidSetting


@dataclass(frozen=True)
class CaseExplanation:
    """Why each query got its class: the case that won, and the best case against it.

    Attributes:
        label: predicted class of each query.
        subcentroid: the sub-centroid of that class that is nearest.
        exemplar: the training row nearest to that sub-centroid (an index into the rows that were
            given to `fit`, or to all calls of `partial_fit` in succession).
        similarity: cosine of the query to the sub-centroid.
        margin: how much less similar the best case of another class is; infinite without one.
        rival_label: class of that other case; where there is none, the predicted class itself.
        rival_subcentroid: its sub-centroid; -1 where there is none.
        rival_exemplar: the training row nearest to it; -1 where there is none.
    """

    label: NDArray[Any]
    subcentroid: NDArray[np.int64]
    exemplar: NDArray[np.int64]
    similarity: NDArray[np.floating]
    margin: NDArray[np.floating]
    rival_label: NDArray[Any]
    rival_subcentroid: NDArray[np.int64]
    rival_exemplar: NDArray[np.int64]


@dataclass(frozen=True)
class _Cases:
    """All that is learnt, for each class and place: `(c k)` and `(c k d)`."""

    mean: Tensor
    weight: Tensor
    exemplar: Tensor
    exemplar_row: Tensor

    @classmethod
    def none(cls, classes: int, subcentroids: int, dim: int, dtype: torch.dtype) -> "_Cases":
        """Room for sub-centroids that have no rows yet."""
        shape = classes, subcentroids
        return cls(
            mean=torch.zeros(*shape, dim, dtype=dtype),
            weight=torch.zeros(shape, dtype=dtype),
            exemplar=torch.full(shape, -1),
            exemplar_row=torch.zeros(*shape, dim, dtype=dtype),
        )

    def put(self, earlier: "_Cases", classes: Tensor) -> None:
        """Takes over what was learnt earlier, at the new numbers of its classes."""
        for field in self.__dataclass_fields__:
            old = getattr(earlier, field)
            getattr(self, field)[classes, : old.shape[1]] = old


class NearestSubCentroids(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Nearest-centroid classifier with several centroids for each class, by cosine similarity.

    Each class is clustered by itself into sub-centroids, with equal mass for each (`sinkhorn`) or
    freely (`kmeans`); a query goes to the class of the nearest one. Nothing is drawn at random. A
    class has at most as many sub-centroids as it has rows of different direction.

    Args:
        subcentroids: sub-centroids of each class, one number for all or one for each class in the
            order of `classes_`.
        max_iter: most rounds of assignment and means.
        epsilon: entropy of the transport plan; smaller is closer to a hard choice.
        iterations: Sinkhorn-Knopp iterations of each assignment.
        temperature: `predict_proba` is the softmax of cosines divided by this.
        assign: the clustering rule, `sinkhorn` or `kmeans` or your own.

    Attributes:
        classes_: the labels, sorted.
        centroids_: sub-centroids `(c, k, d)` of length 1; zero where there is none, or where rows
            cancel to nothing: such a one cannot win.
        counts_: training rows (or their weight) that each stands for `(c, k)`.
        exemplar_indices_: the real training row nearest to each `(c, k)`, -1 where there is none.
            After several `partial_fit` it is the nearest of those that were nearest before and the
            latest rows, since earlier rows are not kept.
        n_iter_: rounds until the assignment did not change any more, or `max_iter`.
        n_samples_seen_: rows given so far.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from dnc import NearestSubCentroids
        >>> X, y = load_digits(return_X_y=True)
        >>> model = NearestSubCentroids(subcentroids=4).fit(X[:1000], y[:1000])
        >>> model.explain(X[1000:1001]).exemplar.shape
        (1,)
    """

    classes_: NDArray[Any]
    centroids_: NDArray[np.floating]
    counts_: NDArray[np.floating]
    exemplar_indices_: NDArray[np.int64]
    n_iter_: int
    n_samples_seen_: int
    _cases: _Cases

    def __init__(
        self,
        subcentroids: int | Sequence[int] = 4,
        *,
        max_iter: int = 50,
        epsilon: float = 0.05,
        iterations: int = 3,
        temperature: float = 0.1,
        assign: Assign = sinkhorn,
    ) -> None:
        self.subcentroids = subcentroids
        self.max_iter = max_iter
        self.epsilon = epsilon
        self.iterations = iterations
        self.temperature = temperature
        self.assign = assign

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Clusters each class of the rows; what was fitted before is forgotten."""
        return self._learn(X, y, None, sample_weight, afresh=True)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Takes more rows in; classes that were never seen before may appear at any time.

        Sub-centroids are means over all rows ever assigned to them. The first rows of a class are
        clustered as by `fit`. `classes` may announce classes in advance: until rows of them come
        they cannot be predicted.
        """
        return self._learn(X, y, classes, sample_weight, afresh=not hasattr(self, "classes_"))

    def decision_function(self, X: ArrayLike) -> NDArray[np.floating]:
        """Cosine to the nearest sub-centroid of each class `(n, c)`.

        With two classes, as everywhere in scikit-learn, one column: how much nearer the second is.
        """
        scores: NDArray[np.floating] = self._scores(X).numpy()
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.floating]:
        """Softmax of the cosines divided by the temperature `(n, c)`."""
        probabilities: NDArray[np.floating] = (
            (self._scores(X) / self.temperature).softmax(1).numpy()
        )
        return probabilities

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of the nearest sub-centroid of each row."""
        nearest: NDArray[Any] = self._scores(X).argmax(dim=1).numpy()
        return self.classes_[nearest]  # type: ignore[no-any-return]

    def explain(self, X: ArrayLike) -> CaseExplanation:
        """The training rows that decide, for each query, and those that came nearest to it."""
        decision = nearest_cases(*self._queries_and_cases(X))
        label, case, rival, rival_case = (
            field.numpy()
            for field in (
                decision.label,
                decision.subcentroid,
                decision.rival_label,
                decision.rival_subcentroid,
            )
        )
        alone = rival < 0
        rival_label = np.where(alone, label, rival)
        rival_exemplar = self.exemplar_indices_[rival_label, rival_case.clip(min=0)]
        return CaseExplanation(
            label=self.classes_[label],
            subcentroid=case,
            exemplar=self.exemplar_indices_[label, case],
            similarity=decision.similarity.numpy(),
            margin=decision.margin.numpy(),
            rival_label=self.classes_[rival_label],
            rival_subcentroid=rival_case,
            rival_exemplar=np.where(alone, -1, rival_exemplar),
        )

    def _learn(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        *,
        afresh: bool,
    ) -> Self:
        require_settings(
            ("max_iter", self.max_iter, self.max_iter >= 1, "at least 1"),
            ("epsilon", self.epsilon, self.epsilon > 0, "above 0"),
            ("iterations", self.iterations, self.iterations >= 1, "at least 1"),
            ("temperature", self.temperature, self.temperature > 0, "above 0"),
        )
        checked = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=afresh)
        rows: NDArray[np.floating] = checked[0]
        target: NDArray[Any] = checked[1]
        check_classification_targets(target)
        weights = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
        earlier = None if afresh else (self.classes_, self._cases)
        seen = 0 if afresh else self.n_samples_seen_

        x = normalised(torch.tensor(rows))
        known, cases = self._room(np.unique(target), classes, x.shape[1], x.dtype, earlier)
        counted = torch.from_numpy(weights > 0).nonzero()[:, 0]
        x = x[counted].to(cases.mean.dtype)
        labels = torch.from_numpy(np.searchsorted(known, target))[counted]
        cases = self._clustered(cases, x, labels, torch.from_numpy(weights).to(x.dtype)[counted])
        cases = _with_nearest_rows(cases, x, labels, counted + seen)

        self.classes_, self._cases, self.n_samples_seen_ = known, cases, seen + len(rows)
        self.centroids_ = directions(cases.mean).numpy()
        self.counts_ = cases.weight.numpy()
        self.exemplar_indices_ = cases.exemplar.numpy()
        return self

    def _room(
        self,
        seen: NDArray[Any],
        announced: ArrayLike | None,
        dim: int,
        dtype: torch.dtype,
        earlier: tuple[NDArray[Any], _Cases] | None,
    ) -> tuple[NDArray[Any], _Cases]:
        """All classes known so far, sorted, and what was learnt of them, with room for the new."""
        classes = seen if announced is None else np.union1d(seen, np.asarray(announced))
        if earlier is not None:
            if (earlier[0].dtype.kind in "OUS") != (classes.dtype.kind in "OUS"):
                raise InvalidLabels(
                    f"The classes so far are {earlier[0].dtype}, now y holds {classes.dtype}, like "
                    f"{classes[0]!r}; numbers and names cannot be mixed."
                )
            classes = np.union1d(earlier[0], classes)
            dtype = earlier[1].mean.dtype
        k = max(numbers_per_class(self.subcentroids, len(classes)))
        if earlier is not None and k < earlier[1].weight.shape[1]:
            raise InvalidSetting(
                f"subcentroids is at most {k} now, but {earlier[1].weight.shape[1]} places were "
                "fitted; fit() anew to have fewer."
            )
        cases = _Cases.none(len(classes), k, dim, dtype)
        if earlier is not None:
            cases.put(earlier[1], torch.from_numpy(np.searchsorted(classes, earlier[0])))
        return classes, cases

    def _clustered(self, cases: _Cases, x: Tensor, labels: Tensor, weights: Tensor) -> _Cases:
        """Alternates assignment and means until nothing changes; earlier rows stay in the means."""
        classes, k = cases.weight.shape
        numbers = torch.tensor(numbers_per_class(self.subcentroids, classes))
        placed = cases.weight > 0
        wanted = torch.arange(k) < numbers[:, None]
        seeds = seeded(directions(cases.mean), placed, wanted, x, labels, weights=weights)
        p, valid = seeds.centroids, placed | (seeds.row >= 0)
        earlier = ClusterMeans(cases.mean.flatten(0, 1), cases.weight.flatten())
        means, assigned = earlier, torch.full_like(labels, -1)
        for round_ in range(1, self.max_iter + 1):
            self.n_iter_ = round_
            before = assigned
            assigned = self.assign(
                similarity_to_own_class(x, labels, p),
                labels,
                classes=classes,
                valid=valid,
                epsilon=self.epsilon,
                iterations=self.iterations,
                weights=weights,
            )
            if torch.equal(assigned, before):
                break
            clusters = Bags.of_clusters(labels, assigned, classes, k)
            later = cluster_means(x, clusters, weights=weights)
            means = running_mean(earlier, later)
            # One that lost all its rows waits where it is for others.
            held = (means.weight > 0).view(classes, k, 1)
            p = torch.where(held, directions(means.mean).view_as(p), p)
        return replace(cases, mean=means.mean.view_as(p), weight=means.weight.view_as(cases.weight))

    def _scores(self, X: ArrayLike) -> Tensor:
        x, p, eligible = self._queries_and_cases(X)
        blocks = query_blocks(x, p)
        return torch.cat([class_scores(similarities(block, p), eligible) for block in blocks])

    def _queries_and_cases(self, X: ArrayLike) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised rows, the sub-centroids, and which of these have a direction and can win."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        p = torch.from_numpy(self.centroids_)
        x = normalised(torch.tensor(rows)).to(p.dtype)
        return x, p, p.any(dim=2)


def _with_nearest_rows(cases: _Cases, x: Tensor, labels: Tensor, numbers: Tensor) -> _Cases:
    """The real row nearest to each sub-centroid, among the given and the nearest before."""
    p = directions(cases.mean)
    row, cosine = nearest_rows(p, x, labels)
    earlier = (p * cases.exemplar_row).sum(dim=2).masked_fill(cases.exemplar < 0, -torch.inf)
    newer = (cosine > earlier) & (row >= 0)
    row = row.clamp(min=0)
    return replace(
        cases,
        exemplar=torch.where(newer, numbers[row], cases.exemplar).masked_fill(~p.any(dim=2), -1),
        exemplar_row=torch.where(newer[..., None], x[row], cases.exemplar_row),
    )
