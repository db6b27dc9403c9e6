import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from dnc import cli
from dnc.study import Study, places, run_missing, write_study
from dnc.study.running import Progress, visible_gpus

# Digits of 8x8 pixels; a run takes about as long as torch takes to load.
STUDY = """
name: small
about: Does it come to an end?
recipe: digits
settings:
  training.epochs: 3
  training.batch_size: 32
  data.train_per_class: 20
  data.size: 8
  augment.padding: 1
  head.memory_batches: 3
rows:
  softmax: {model.classifier: softmax}
  dnc: {}
  broken: {model.pretrained: no-such-file.safetensors}
seeds: 1
reference: softmax
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "small.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def found_in(file: Path, output: Path, rows: tuple[str, ...] = ("softmax", "dnc")):
    study = Study.read(file)
    chosen = {row: study.rows[row] for row in rows}
    reference = study.reference if study.reference in rows else None
    study = study.model_copy(update={"rows": chosen, "reference": reference})
    runs = study.planned()
    return study, places(runs, output / "runs")


def values_of(table: str) -> list[str]:
    """The lines of a table without the times that steps and runs took."""
    lines = re.sub(r"\| \d+ \|", "| time |", table).splitlines()
    return [line for line in lines if not line.startswith("Time of training")]


@pytest.fixture(scope="module")
def whole(file, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole")
    study, found = found_in(file, output)
    told, finished = [], []
    assert not run_missing(found, parallel=2, on_progress=told.append, on_finished=finished.append)
    return write_study(study, found, output / study.name), told, finished, found


def test_what_is_missing_is_run_and_told(whole):
    table, told, finished, found = whole
    assert {place.run.row for place in finished} == {"softmax", "dnc"}
    assert told[-1].finished == told[-1].total == 2
    assert told[-1].seconds_left == 0
    assert "| dnc |" in table
    for place in found:
        results = place.results
        assert set(results["results"]) == {"test", "validation"}
        assert results["steps"] == 3 * 7  # 200 images in batches of 32


def test_a_finished_study_runs_nothing(whole):
    *_, found = whole
    before = [(place.folder / "results.json").stat() for place in found]
    assert run_missing(found, parallel=2, on_finished=pytest.fail) == []
    assert [(place.folder / "results.json").stat() for place in found] == before


def alive(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.is_file() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_study_killed_at_any_moment_ends_in_the_same_table(file, whole, tmp_path):
    study, found = found_in(file, tmp_path)
    code = (
        "import sys; from pathlib import Path; from tests.study.test_running import *; "
        "run_missing(found_in(Path(sys.argv[1]), Path(sys.argv[2]))[1], parallel=1)"
    )
    finished: dict[Path, int] = {}
    for epochs in (0, 3):  # of both runs together
        process = subprocess.Popen([sys.executable, "-c", code, str(file), str(tmp_path)])
        while process.poll() is None and epochs_in(found) <= epochs:
            time.sleep(0.05)
        children = children_of(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        until = time.monotonic() + 20
        while any(alive(child) for child in children) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(alive(child) for child in children), "nothing goes on unseen"
        for place in found:
            results = place.folder / "results.json"
            if results.is_file():
                written = results.stat().st_mtime_ns
                assert finished.setdefault(results, written) == written, "no run is done twice"
    assert not run_missing(found, parallel=2)
    table = write_study(study, found, tmp_path / study.name)
    assert values_of(table) == values_of(whole[0])
    for results, written in finished.items():
        assert results.stat().st_mtime_ns == written


def children_of(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in listed]


def epochs_in(found) -> int:
    """Epochs that the logs tell of."""
    logs = [place.log.read_text() for place in found if place.log.is_file()]
    return sum(log.count("epoch ") for log in logs)


def test_two_studies_at_once_do_a_run_once(file, tmp_path):
    _, found = found_in(file, tmp_path, ("dnc",))
    failures: list[object] = []
    threads = [
        threading.Thread(target=lambda: failures.extend(run_missing(found, parallel=1)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    log = found[0].log.read_text()
    assert log.count("epoch   3/3") + log.count("epoch  3/3") + log.count("epoch 3/3") == 1


def test_runs_stop_in_order_also_where_ctrl_c_is_ignored(file, tmp_path):
    """As in a shell's background, where what is started does not hear SIGINT."""
    study = Study.read(file)
    study = study.model_copy(update={"settings": {**study.settings, "training.epochs": 1000}})
    found = places(study.planned(), tmp_path)[:1]

    def stop_after_an_epoch(progress: Progress) -> None:
        if progress.active and progress.active[0][1] > 0:
            raise TimeoutError

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(TimeoutError):
            run_missing(found, parallel=1, on_progress=stop_after_an_epoch)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found[0].log.read_text().endswith("Stopped.\n")
    assert not found[0].finished


STOPPED_WHILE_IMPORTING = """
import os, signal
from dnc.study import worker

def train(*given, **settings):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        raise ImportError("initialization failed")  # as compiled modules do

worker.train = train
worker.main()
"""


def test_a_run_that_is_stopped_while_it_imports_something_stops_in_order(file, tmp_path):
    recipe = json.dumps(Study.read(file).planned()[0].recipe.model_dump(mode="json"))
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED_WHILE_IMPORTING, str(tmp_path / "run"), recipe],
        stdin=(pipe := os.pipe())[0],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    for end in pipe:
        os.close(end)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "Stopped.\n", "")


def test_runs_of_several_processes_come_to_their_end(file, tmp_path):
    study = Study.read(file)
    rows = {"two": {"training.devices": 2, "training.accelerator": "cpu", "training.epochs": 1}}
    study = study.model_copy(update={"rows": rows, "reference": None})
    found = places(study.planned(), tmp_path)
    assert run_missing(found, parallel=1, limit_seconds=240) == []
    assert found[0].finished


def test_runs_keep_to_the_gpus_that_are_given(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,7")
    assert visible_gpus() == ["6", "7"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_gpus() == ["0", "1"]


def test_the_command_stops_in_time_goes_on_and_tells_what_failed(file, tmp_path):
    def run(*options: str) -> Result:
        arguments = ["study", str(file), "--output", str(tmp_path), *options]
        return CliRunner().invoke(cli.app, arguments)

    assert run("--dry-run").stdout.count("missing") == 4  # in the summary, and for each run
    assert "Still missing: 3 runs." in run("--limit-minutes", "0").stdout
    assert not list(tmp_path.glob("runs/*")), "nothing was begun"
    stopped = run("--limit-minutes", "0.01")
    assert stopped.exit_code == 0
    assert "0 of 1" in stopped.stdout
    assert "Still missing: 3 runs. The same command goes on." in stopped.stdout
    ended = run()
    assert ended.exit_code == 1
    assert "Failed: broken, seed 0" in ended.stdout  # and the others have come to their end
    assert "no-such-file.safetensors" in ended.stdout
    assert "(exit code 1)" in ended.stdout
    states = [line.split()[0] for line in run("--dry-run").stdout.splitlines()[1:]]
    assert states == ["done", "done", "missing"]
    assert run("--show").stdout == STUDY
    assert run("--seeds", "0").exit_code == 2
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "inside"):
        assert "file is a file" in str(run("--output", str(place)).exception)
