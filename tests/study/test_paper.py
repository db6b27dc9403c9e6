import json
import re
from pathlib import Path

import pytest

from dnc.errors import InvalidStudy
from dnc.study import Place, Study, markdown, paper_map, paper_results, shipped_studies, summarised
from tests.cli.commands import run

STUDIES = {name: Study.read(name) for name in shipped_studies()}
OF_THE_PAPER = [name for name in STUDIES if name.startswith("table-")]


def test_every_table_of_the_paper_has_a_command_that_makes_it():
    listed = {made.item.removeprefix("Table ") for made in paper_map() if "Table" in made.item}
    assert {result.table for result in paper_results()} <= listed


def test_the_page_of_the_paper_says_what_the_list_says():
    page = (Path(__file__).parents[2] / "docs" / "paper.md").read_text()
    for made in paper_map():
        assert f"| {made.item} | {made.what} | `{made.command}` |" in page


def test_every_study_of_the_paper_is_listed_and_every_one_that_is_listed_is_there():
    commands = [made.command for made in paper_map()]
    listed = {match[1] for text in commands if (match := re.match(r"dnc study (\S+)", text))}
    assert listed == set(OF_THE_PAPER)


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_a_study_of_the_paper_is_of_its_table_at_both_scales(name):
    study = STUDIES[name]
    assert name.split("-")[1] == study.published.table.lower()
    paper = study.at_scale("paper")
    assert study.planned()
    assert paper.planned()
    assert paper.name != study.name
    # A row that the paper has a number for has it beside its own.
    shown = [row for row in paper.all_rows() if study.published.result(row) is not None]
    assert shown
    item = f"Table {study.published.table}"
    assert any(made.item == item and made.command == f"dnc study {name}" for made in paper_map())


def test_every_number_of_the_tables_stands_beside_a_row():
    # Only the memory of Table A11 is a benchmark.
    beside = {
        study.published.result(row, also=metric)
        for study in map(STUDIES.get, OF_THE_PAPER)
        for row in study.published.rows
        for metric in (None, *study.published.also)
    }
    assert {result for result in paper_results() if result.table != "A11"} - beside == set()


def test_numbers_of_the_paper_are_told_apart_in_the_table(tmp_path):
    study = STUDIES["table-1"]
    rows = summarised(study, [Place(one, tmp_path / "none") for one in study.planned("digits")])
    text = markdown(study, rows, "test")
    assert "*paper, CIFAR-10*" in text
    assert "*95.78 ± 0.12*" in text
    assert "Those runs were the authors', at their scale" in text


def test_a_study_without_the_scale_of_the_paper_says_so():
    with pytest.raises(InvalidStudy, match="has no paper_scale"):
        STUDIES["digits-subcentroids"].at_scale("paper")


def test_further_metrics_of_the_paper_stand_beside_ones_own(tmp_path):
    study = STUDIES["table-a8-cifar10"]
    places = [Place(one, tmp_path / one.row) for one in study.planned("images")]
    for place in places:
        place.folder.mkdir(exist_ok=True)
        seconds = 3600 if place.run.row == "dnc" else 5400
        figures = {"results": {"test": {"top1": 0.7}}, "seconds": seconds, "health": {}}
        text = json.dumps({**figures, "seconds_per_step": 0.1})
        (place.folder / "results.json").write_text(text)
    text = markdown(study, summarised(study, places), "test")
    assert "| hours | *paper, training-hours* |" in text
    assert "| *93.88* | 1.5000 ± 0.0000 | *4.5* |" in text
    assert "| *95.78 ± 0.12* | 1.0000 ± 0.0000 | *2.5* |" in text


def test_a_further_number_that_is_not_shown_is_refused(tmp_path):
    file = tmp_path / "mine.yaml"
    published = "{table: '2', dataset: ImageNet, also: {top5: top5}, rows: {}}"
    file.write_text(f"name: mine\nrecipe: digits\nrows: {{a: {{}}}}\npublished: {published}\n")
    with pytest.raises(InvalidStudy, match=r"published\.also has 'top5', which the study does not"):
        Study.read(file)


@pytest.mark.parametrize(
    ("published", "told"),
    [
        ("{table: '1', dataset: CIFAR-10, rows: {a: {method: dnc}}}", "2 numbers of the paper fit"),
        ("{table: '9', dataset: CIFAR-10, rows: {a: {method: dnc}}}", "0 numbers of the paper fit"),
        ("{table: '1', dataset: CIFAR-10, rows: {b: {method: dnc}}}", "'b', which is no row"),
    ],
)
def test_numbers_that_the_paper_has_not_are_refused(tmp_path, published, told):
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: mine\nrecipe: digits\nrows: {{a: {{}}}}\npublished: {published}\n")
    with pytest.raises(InvalidStudy, match=told):
        Study.read(file)


def test_the_list_shows_what_makes_each_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    result = run("study", "list")
    assert result.exit_code == 0
    lines = {re.sub(r"\s*│\s*", "|", line).strip("|") for line in result.output.splitlines()}
    for made in paper_map():
        assert f"{made.item}|{made.what}|{made.command}" in lines


@pytest.mark.parametrize("given", [[], ["empty"]])
def test_a_dry_run_fetches_nothing_and_lists_the_rows_all_the_same(given, tmp_path, monkeypatch):
    def no_network(*args, **kwargs):
        raise AssertionError("a dry run has fetched something")

    monkeypatch.setattr("dnc.data.packed.fetch_archive", no_network)
    (tmp_path / "empty").mkdir()
    folder = [str(tmp_path / one) for one in given]
    result = run("study", "table-1", *folder, "--scale", "paper", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "what is done can be told once its images are there" in " ".join(result.output.split())
    for planned in STUDIES["table-1"].at_scale("paper").planned():
        assert f"{planned.row}, seed {planned.seed}" in result.output
    assert list((tmp_path / "empty").iterdir()) == []
