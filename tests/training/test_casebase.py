import torch

from tests.report.models import made_features, made_images, made_recognizer


def test_counts_of_cases_are_those_of_a_slow_count():
    images = made_images(("red", "green", "blue"), 20, seed=1)
    features = made_features(images, noise=0.5, seed=2)
    recognizer = made_recognizer(images, features)
    p = recognizer.model.head.centroids
    cosine = torch.einsum("nd,ckd->nck", torch.nn.functional.normalize(features.rows), p)
    own, winner = cosine.argmax(dim=2), cosine.flatten(1).argmax(dim=1)
    wrong = 0
    for case in recognizer.cases.cases:
        mine = [
            row
            for row in range(60)
            if int(features.labels[row]) == case.label
            and int(own[row, case.label]) == case.subcentroid
        ]
        assert case.stands_for == len(mine)
        assert case.of_these_right == sum(int(winner[row]) // 2 == case.label for row in mine)
        decided = [
            row for row in range(60) if int(winner[row]) == 2 * case.label + case.subcentroid
        ]
        assert case.decides == len(decided)
        assert case.rightly == sum(int(features.labels[row]) == case.label for row in decided)
        wrong += case.stands_for - case.of_these_right
    assert wrong > 0


def test_the_images_behind_cases_are_of_the_class_and_no_image_is_there_twice():
    images = made_images(("red", "green", "blue"), 20, seed=1)
    recognizer = made_recognizer(images, made_features(images, noise=0.3, seed=2))
    cases = recognizer.cases.cases
    assert len({case.image for case in cases}) == len(cases) == 6
    for case in cases:
        position = images.ids.tolist().index(case.image)
        assert images.labels[position] == case.label
        assert case.file == images.names[position]
