import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import dnc
from dnc.data import open_scenes
from dnc.errors import InvalidData, InvalidModel
from dnc.evaluation.scene_evaluating import evaluate_scenes
from dnc.explanation.scenes import SceneExplainer
from dnc.report.scene_examples import chosen_scenes
from dnc.report.scene_looking import SeenScene, looked_at_scenes
from dnc.report.scene_sections import classes, health, mistakes
from dnc.report.scene_subject import notes
from dnc.report.scenes import SceneReport
from tests.cli.commands import refused, run
from tests.data.scenery import draw_scenes
from tests.explanation.scene_models import drawn_scene_recognizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("scenes")
    draw_scenes(root, 6, part="train")
    draw_scenes(root, 8, part="test", seed=1, size=(60, 44))
    mask = root / "masks" / "test" / "003.png"
    labels = np.array(Image.open(mask))
    labels[10:20] = 255
    Image.fromarray(labels).save(mask)
    return root


@pytest.fixture(scope="module")
def explainer(folder):
    return SceneExplainer(drawn_scene_recognizer(folder))


@pytest.fixture(scope="module")
def tested(folder):
    return open_scenes(folder).test


@pytest.fixture(scope="module")
def report(explainer, tested):
    looked = looked_at_scenes(explainer, "test", tested, workers=0)
    return SceneReport(explainer, looked, title="a model")


@pytest.fixture(scope="module")
def page(report):
    return report.html()


def test_every_pixel_with_a_label_is_counted_for_its_case_and_class(report, explainer, tested):
    slowly = np.zeros(report.subject.looked.decided.shape, dtype=int)
    for position in range(len(tested)):
        one = explainer.explained(explainer.recognizer.segmented("", tested.read(position)))
        truth = tested.read_mask(position)
        for number, label in zip(one.numbers.flat, truth.flat, strict=True):
            if label >= 0:
                slowly[int(number) - 1, label] += 1
    assert (report.subject.looked.decided.numpy() == slowly).all()
    assert slowly.sum() == 8 * 60 * 44 - 10 * 60


def test_the_figures_are_those_of_the_evaluation(report, page, explainer, tested):
    evaluation = evaluate_scenes(explainer.recognizer, tested, workers=0)
    assert report.subject.looked.evaluation.to_dict() == evaluation.to_dict()
    assert f"<b>{100 * evaluation.miou:.2f} %</b>mean IoU" in page
    assert f"<b>{100 * evaluation.pixel_accuracy:.2f} %</b>of pixels right" in page
    for result in evaluation.per_class:
        row = re.search(rf"<bdi>{result.name}</bdi></td>(.*?)</tr>", page)[1]
        shares = (result.iou, result.accuracy, result.precision, result.pixels / evaluation.pixels)
        told = re.findall(r"([\d.]+) %", row)
        assert told == [f"{100 * share:.1f}" for share in shares]


def test_classes_are_matched_by_name_not_by_number(explainer, tested):
    turned = SceneExplainer(replace(explainer.recognizer, classes=("3", "1", "0", "2")))
    looked = looked_at_scenes(turned, "test", tested, workers=0)
    evaluation = evaluate_scenes(turned.recognizer, tested, workers=0)
    assert looked.evaluation.to_dict() == evaluation.to_dict()
    for label in range(4):
        own = [number for number, (c, _) in enumerate(turned.places) if c == label]
        assert (looked.decided[own].sum(dim=0) == evaluation.confusion[:, label]).all()
    names = np.array(tested.classes)[tested.read_mask(0)]
    assert (np.array(turned.recognizer.classes)[looked.truth(0)] == names).all()


def test_every_case_is_in_the_gallery_and_every_link_leads_to_one(page, explainer):
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    cards = {name for name in ids if name.startswith("case-")}
    assert cards == {f"case-{number}" for number in range(1, len(explainer.places) + 1)}
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    sections = set(re.findall(r'<section id="(\w+)"', page))
    assert sections <= set(re.findall(r'href="#(\w+)"', page))


def test_a_case_is_told_its_share_of_what_its_class_was_given(report):
    subject = report.subject
    for one in classes(subject):
        shares = [float(case["share"].removesuffix(" %")) for case in one["cases"]]
        assert sum(shares) == pytest.approx(100, abs=0.5)
        assert shares == sorted(shares, reverse=True)
        for case in one["cases"]:
            assert case["decides"] == subject.decides(case["index"])
            rightly = subject.rightly(case["index"]) / case["decides"]
            assert case["right"] == f"{100 * rightly:.1f} %"


def test_mix_ups_come_by_pixels_each_with_the_case_that_made_most_of_it(report):
    looked, places = report.subject.looked, report.subject.explainer.places
    wanted = looked.evaluation.most_confused(12)
    found = mistakes(report.subject)
    assert [(one["true"], one["given"]) for one in found] == [one[:2] for one in wanted]
    for one in found:
        true, given = int(one["true"]), int(one["given"])
        of_class = {
            n: int(looked.decided[n, true]) for n, (c, _) in enumerate(places) if c == given
        }
        most = max(of_class, key=of_class.get)
        assert one["case"]["index"] == most + 1
        share = of_class[most] / looked.evaluation.confusion[true, given]
        assert one["by_case"] == f"{100 * share:.1f} %"


def test_cases_that_are_mostly_wrong_or_idle_are_named(report):
    looked = report.subject.looked
    decided = looked.decided.clone()
    decided[0] = 0
    right = report.subject.explainer.places[1][0]
    decided[1] = 0
    decided[1, right], decided[1, (right + 1) % 4] = 2, 3
    worse = SceneReport(report.subject.explainer, replace(looked, decided=decided), title="x")
    lists = {entry["name"].partition(":")[0]: entry["cases"] for entry in health(worse.subject)}
    wrong = lists["Cases that decide mostly wrongly, those with most pixels first"]
    assert [case["index"] for case in lists["Cases that have decided no pixel with a label"]] == [1]
    told = next(case for case in wrong if case["index"] == 2)
    assert (told["right"], told["of_other"]) == ("40.0 %", "60.0 %")
    assert told["other"] == str((right + 1) % 4)
    slowly = [
        n + 1
        for n, (c, _) in enumerate(worse.subject.explainer.places)
        if decided[n].sum() and decided[n, c] < decided[n].sum() / 2
    ]
    assert {case["index"] for case in wrong} == set(slowly)
    assert "decides nothing" in worse.html()


def test_the_worst_the_middle_and_the_best_scenes_are_shown(report, page):
    seen = [SeenScene(n, accuracy / 100, 0.5) for n, accuracy in enumerate((7, 3, 9, 1, 5, 8, 2))]
    unlabelled = SeenScene(7, float("nan"), float("nan"))
    chosen = chosen_scenes([unlabelled, *seen])
    assert [round(100 * one.accuracy) for _, one in chosen] == [1, 2, 3, 5, 8, 9]
    few = chosen_scenes([*seen[:3], unlabelled])
    assert [one.position for _, one in few] == [1, 0, 2]
    real = [one.position for _, one in chosen_scenes(report.subject.looked.seen)]
    names = [report.subject.looked.scenes.names[position] for position in real]
    assert re.findall(r"<h3><bdi>([^<]+)</bdi></h3>", page) == names
    assert page.count('alt="the truth: ') == len(names) == 6


def test_a_scene_without_labels_or_that_cannot_be_read_is_no_mistake(explainer, tmp_path):
    draw_scenes(tmp_path, 3, part="train")
    draw_scenes(tmp_path, 4, part="test", seed=1)
    mask = tmp_path / "masks" / "test" / "000.png"
    Image.fromarray(np.full_like(np.array(Image.open(mask)), 255)).save(mask)
    scenes = open_scenes(tmp_path).test
    (tmp_path / "images" / "test" / "001.png").write_bytes(b"no image any more")
    looked = looked_at_scenes(explainer, "test", scenes, workers=0)
    assert [one.position for one in looked.seen] == [0, 2, 3]
    assert np.isnan(looked.seen[0].accuracy)
    assert len(looked.bad_files) == 1
    report = SceneReport(explainer, looked, title="x")
    assert notes(report.subject) == ["1 scenes could not be read and are not counted."]
    assert report.html().count("<h3>") == 2
    with pytest.raises(InvalidData, match="no scenes"):
        looked_at_scenes(explainer, "test", scenes.subset([]), workers=0)


def test_nothing_is_loaded_and_only_the_script_of_the_page_may_run(page):
    assert re.search(r"default-src 'none'; img-src data:; .*script-src 'sha256-", page)
    assert page.count("<script>") == 1
    for source in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert source.startswith(("data:image/", "#")), source[:80]
    for tag in re.findall(r"<img[^>]*>", page):
        assert re.search(r'alt="[^"]+"', tag)


def test_the_size_is_told_and_the_page_written_whole_or_not_at_all(report, page, tmp_path):
    told = re.search(r"This file has (\d+\.\d) MB", page)
    assert float(told[1]) == pytest.approx(len(page.encode()) / 1e6, abs=0.1)
    written = report.write(tmp_path / "new" / "report.html")
    assert written.size == written.path.stat().st_size
    with pytest.raises(IsADirectoryError):
        report.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_the_command_reports_on_segmenters_and_refuses_softmax(folder, explainer, tmp_path):
    dnc.save(explainer.recognizer, tmp_path / "model")
    page = tmp_path / "report.html"
    result = run("report", tmp_path / "model", folder, "-o", page, "--workers", 0, "--scales", 1)
    assert result.exit_code == 0, result.output
    assert "measured on 8 test scenes" in page.read_text()
    command = ("report", tmp_path / "model", folder, "-o", page, "--workers", 0)
    assert run(*command, "--part", "train").exit_code == 0
    assert "These are training scenes" in page.read_text()
    softmax = drawn_scene_recognizer(folder, kind="softmax")
    dnc.save(softmax, tmp_path / "softmax")
    assert "of kind 'softmax'" in refused("report", tmp_path / "softmax", folder, "-o", page)
    with pytest.raises(InvalidModel, match="of kind 'softmax'"):
        SceneExplainer(softmax)
