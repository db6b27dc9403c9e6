import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.estimator_checks import estimator_checks_generator

from dnc import NearestSubCentroids, kmeans, sinkhorn
from dnc.errors import InvalidLabels, InvalidSetting

CHECKED = {"sinkhorn": NearestSubCentroids(), "kmeans": NearestSubCentroids(1, assign=kmeans)}


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{name}-{number}-{check.func.__name__}")
        for name, checked in CHECKED.items()
        for number, (estimator, check) in enumerate(estimator_checks_generator(checked))
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, random_state=0, stratify=y)


def modes(rows_each=30, seed=0):
    """Two classes with two well separated modes each, opposite ones sharing a label."""
    random = np.random.default_rng(seed)
    centres = np.eye(6)[:4]
    X = np.repeat(centres, rows_each, axis=0) + random.normal(scale=0.05, size=(4 * rows_each, 6))
    return X, np.repeat([0, 1, 0, 1], rows_each)


@pytest.mark.filterwarnings("ignore:self.within_class_std_dev_")
def test_one_subcentroid_is_scikit_learns_nearest_centroid_on_the_sphere(digits):
    X_train, X_test, y_train, _ = digits
    theirs = NearestCentroid().fit(normalize(X_train), y_train)
    theirs.centroids_ = normalize(theirs.centroids_)
    ours = NearestSubCentroids(1).fit(X_train, y_train)
    np.testing.assert_allclose(ours.centroids_[:, 0], theirs.centroids_)
    assert (ours.predict(X_test) == theirs.predict(normalize(X_test))).all()


@pytest.mark.parametrize("assign", [sinkhorn, kmeans])
def test_every_mode_of_a_class_becomes_a_subcentroid(assign):
    X, y = modes()
    model = NearestSubCentroids(2, assign=assign).fit(X, y)
    assert (model.counts_ == 30).all()
    found = [{int(index) // 30 for index in row} for row in model.exemplar_indices_]
    assert found == [{0, 2}, {1, 3}]
    for c in range(2):
        expected = {mode: normalize(normalize(X[mode * 30 : (mode + 1) * 30]).mean(0)[None])[0]
                    for mode in found[c]}  # fmt: skip
        for place in range(2):
            mode = int(model.exemplar_indices_[c, place]) // 30
            np.testing.assert_allclose(model.centroids_[c, place], expected[mode])


def test_more_subcentroids_are_better_than_one_on_digits(digits):
    X_train, X_test, y_train, y_test = digits
    one, many = (NearestSubCentroids(k).fit(X_train, y_train).score(X_test, y_test) for k in (1, 8))
    assert many > one + 0.05


def test_exemplars_are_the_nearest_real_rows_of_their_class(digits):
    X_train, _, y_train, _ = digits
    model = NearestSubCentroids(3).fit(X_train, y_train)
    cosine = np.einsum("nd,ckd->nck", normalize(X_train), model.centroids_)
    for c, label in enumerate(model.classes_):
        rows = np.flatnonzero(y_train == label)
        nearest = rows[cosine[rows, c].argmax(axis=0)]
        assert (model.exemplar_indices_[c] == nearest).all()


def test_predict_proba_and_decision_function_tell_the_same_story(digits):
    X_train, X_test, y_train, _ = digits
    model = NearestSubCentroids(temperature=0.2).fit(X_train, y_train)
    scores, chances = model.decision_function(X_test), model.predict_proba(X_test)
    cosine = np.einsum("nd,ckd->nck", normalize(X_test), model.centroids_).max(axis=2)
    np.testing.assert_allclose(scores, cosine)
    exponentials = np.exp(cosine / 0.2)
    np.testing.assert_allclose(chances, exponentials / exponentials.sum(axis=1, keepdims=True))
    assert (model.classes_[chances.argmax(axis=1)] == model.predict(X_test)).all()


def test_explanations_name_the_rows_that_decide(digits):
    X_train, X_test, y_train, _ = digits
    model = NearestSubCentroids().fit(X_train, y_train)
    why = model.explain(X_test)
    assert (why.label == model.predict(X_test)).all()
    assert (y_train[why.exemplar] == why.label).all()
    assert (y_train[why.rival_exemplar] == why.rival_label).all()
    assert (why.rival_label != why.label).all()
    scores = np.sort(model.decision_function(X_test), axis=1)
    np.testing.assert_allclose(why.similarity, scores[:, -1])
    np.testing.assert_allclose(why.margin, scores[:, -1] - scores[:, -2])


def test_with_a_single_class_there_is_no_rival():
    why = NearestSubCentroids(1).fit(np.eye(3), ["a"] * 3).explain(np.eye(3)[:1])
    assert why.label.tolist() == why.rival_label.tolist() == ["a"]
    assert (why.margin[0], why.rival_exemplar[0], why.rival_subcentroid[0]) == (np.inf, -1, -1)


def test_blocks_of_queries_change_nothing(digits, monkeypatch):
    X_train, X_test, y_train, _ = digits
    model = NearestSubCentroids().fit(X_train, y_train)
    whole = model.decision_function(X_test)
    monkeypatch.setattr("dnc.centroids.similarity.BLOCK_VALUES", 7 * model.counts_.size)
    np.testing.assert_allclose(model.decision_function(X_test), whole)


def test_one_partial_fit_on_everything_is_fit(digits):
    X_train, X_test, y_train, _ = digits
    fitted = NearestSubCentroids().fit(X_train, y_train)
    partly = NearestSubCentroids().partial_fit(X_train, y_train)
    np.testing.assert_allclose(partly.centroids_, fitted.centroids_)
    assert (partly.predict(X_test) == fitted.predict(X_test)).all()
    assert (partly.exemplar_indices_ == fitted.exemplar_indices_).all()


def test_partial_fit_with_one_subcentroid_forgets_no_row(digits):
    X_train, _, y_train, _ = digits
    at_once = NearestSubCentroids(1).fit(X_train, y_train)
    partly = NearestSubCentroids(1)
    for part in np.array_split(np.arange(len(X_train)), 13):
        partly.partial_fit(X_train[part], y_train[part])
    np.testing.assert_allclose(partly.centroids_, at_once.centroids_)
    np.testing.assert_allclose(partly.counts_, at_once.counts_)
    assert partly.n_samples_seen_ == len(X_train)
    assert (y_train[partly.exemplar_indices_] == partly.classes_[:, None]).all()


def test_new_classes_may_appear_later(digits):
    X_train, X_test, y_train, y_test = digits
    names = np.array(list("jihgfedcba"))  # so that later classes sort before earlier ones
    model = NearestSubCentroids(8)
    for digit in range(10):
        model.partial_fit(X_train[y_train == digit], names[y_train[y_train == digit]])
        assert model.classes_.tolist() == sorted(names[: digit + 1])
    assert model.score(X_test, names[y_test]) > 0.96
    together = NearestSubCentroids(8).fit(X_train, names[y_train])
    np.testing.assert_allclose(model.centroids_, together.centroids_)


def test_an_announced_class_cannot_win_before_its_rows_come(digits):
    X_train, X_test, y_train, _ = digits
    known = y_train < 5
    model = NearestSubCentroids().partial_fit(X_train[known], y_train[known], classes=np.arange(10))
    assert model.predict(X_test).max() < 5
    assert (model.predict_proba(X_test)[:, 5:] == 0).all()
    assert (model.exemplar_indices_[5:] == -1).all()
    model.partial_fit(X_train[~known], y_train[~known])
    assert set(model.predict(X_test)) == set(range(10))


def test_places_left_free_are_filled_by_later_rows():
    X, y = modes()
    model = NearestSubCentroids(2).partial_fit(X[[0, 30]], y[[0, 30]])
    assert (model.counts_ > 0).sum(axis=1).tolist() == [1, 1]
    model.partial_fit(X[[60, 90]], y[[60, 90]])
    assert model.counts_.tolist() == [[1, 1], [1, 1]]
    assert sorted(model.exemplar_indices_.ravel().tolist()) == [0, 1, 2, 3]


def test_a_class_has_no_more_subcentroids_than_different_rows():
    model = NearestSubCentroids(4).fit([[1, 0], [2, 0], [0, 1]], ["a", "a", "b"])
    assert model.counts_.tolist() == [[2, 0, 0, 0], [1, 0, 0, 0]]
    assert model.exemplar_indices_[:, 1:].max() == -1
    assert not model.centroids_[:, 1:].any()
    assert model.predict([[3, 1], [1, 3]]).tolist() == ["a", "b"]


def test_one_number_of_subcentroids_for_each_class(digits):
    X_train, _, y_train, _ = digits
    numbers = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
    model = NearestSubCentroids(numbers).fit(X_train, y_train)
    assert (model.counts_ > 0).sum(axis=1).tolist() == numbers


def test_integer_weights_equal_repeated_rows(digits):
    X_train, X_test, y_train, _ = digits
    times = np.arange(len(X_train)) % 3
    weighted = NearestSubCentroids().fit(X_train, y_train, sample_weight=times)
    repeated = NearestSubCentroids().fit(X_train.repeat(times, 0), y_train.repeat(times))
    np.testing.assert_allclose(weighted.centroids_, repeated.centroids_)
    np.testing.assert_allclose(weighted.counts_, repeated.counts_)
    assert (times[weighted.exemplar_indices_] > 0).all()
    assert (weighted.predict(X_test) == repeated.predict(X_test)).all()


def test_scaling_rows_changes_nothing(digits):
    X_train, X_test, y_train, _ = digits
    scale = 1 + np.arange(len(X_train))[:, None]
    model = NearestSubCentroids().fit(X_train, y_train)
    scaled = clone(model).fit(scale * X_train, y_train)
    np.testing.assert_allclose(scaled.centroids_, model.centroids_)
    assert (model.predict(X_test) == model.predict(100 * X_test)).all()


def test_it_works_in_a_pipeline_and_a_grid_search(digits):
    X_train, X_test, y_train, y_test = digits
    pipeline = make_pipeline(StandardScaler(), NearestSubCentroids())
    search = GridSearchCV(
        pipeline,
        {
            "nearestsubcentroids__subcentroids": [1, 4],
            "nearestsubcentroids__assign": [sinkhorn, kmeans],
        },
        cv=3,
    ).fit(X_train, y_train)
    assert search.best_params_["nearestsubcentroids__subcentroids"] == 4
    assert search.score(X_test, y_test) > 0.9


def test_sparse_input_is_refused_clearly():
    with pytest.raises(TypeError, match="dense data is required"):
        NearestSubCentroids().fit(sparse.csr_array(np.eye(4)), [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"subcentroids": 0}, "asks for 0 of a class"),
        ({"subcentroids": [1, 2, 3]}, "3 numbers for 2 classes"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"epsilon": 0}, "epsilon is 0"),
        ({"iterations": 0}, "iterations is 0"),
        ({"temperature": -1}, "temperature is -1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(InvalidSetting, match=message):
        NearestSubCentroids(**settings).fit(np.eye(4), [0, 0, 1, 1])


def test_a_class_whose_rows_cancel_cannot_win():
    model = NearestSubCentroids(1).fit([[1, 0], [-1, 0], [0.1, 1], [0.2, 1]], [0, 0, 1, 1])
    assert not model.centroids_[0].any()
    assert model.exemplar_indices_[0].tolist() == [-1]
    assert model.predict([[0, -1], [1, 0]]).tolist() == [1, 1]


def test_rows_that_a_rule_leaves_out_take_no_part():
    def all_but_the_third(similarity, labels, **_):
        return torch.where(torch.arange(len(labels)) == 2, -1, 0)

    model = NearestSubCentroids(1, assign=all_but_the_third).fit(np.eye(4), [0, 0, 1, 1])
    assert model.counts_.tolist() == [[2], [1]]
    np.testing.assert_allclose(model.centroids_[1, 0], np.eye(4)[3])


def test_numbers_of_numpy_are_numbers():
    model = NearestSubCentroids(np.int64(2)).fit(np.eye(4), [0, 0, 1, 1])
    assert model.counts_.shape == (2, 2)


def test_fewer_places_than_fitted_need_a_new_fit():
    model = NearestSubCentroids(4).partial_fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(InvalidSetting, match="at most 2 now, but 4 places"):
        model.set_params(subcentroids=2).partial_fit(np.eye(4), [0, 0, 1, 1])


def test_numbers_and_names_are_not_mixed():
    model = NearestSubCentroids().partial_fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(InvalidLabels, match="cannot be mixed"):
        model.partial_fit(np.eye(4), ["a", "a", "b", "b"])
    assert model.classes_.tolist() == [0, 1]


def test_an_unfitted_model_says_so():
    for ask in ("predict", "predict_proba", "decision_function", "explain"):
        with pytest.raises(NotFittedError):
            getattr(NearestSubCentroids(), ask)(np.eye(2))
