import sys

import pytest

import dnc
from dnc import cli
from tests.cli.commands import run


def test_help_lists_the_commands_and_their_options():
    assert "demo" in run("--help").output
    text = run("demo", "--help").output
    for option in ("--output", "--seed", "--epochs", "--quiet"):
        assert option in text


def test_version():
    assert run("--version").output.strip() == f"dnc {dnc.__version__}"


def test_demo_prints_a_table_and_writes_the_files(tmp_path):
    result = run("demo", "--output", str(tmp_path / "new" / "folder"), "--epochs", "1")
    assert result.exit_code == 0, result.output
    assert "accuracy" in result.output
    assert "sub-centroids" in result.output
    assert (tmp_path / "new" / "folder" / "report.html").exists()


def test_a_quiet_demo_prints_nothing(tmp_path):
    result = run("demo", "--output", str(tmp_path), "--epochs", "1", "--quiet")
    assert result.output == ""
    assert (tmp_path / "results.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epochs", "0"),
        ("--epochs", "x"),
        ("--seed", "-1"),
        ("--seed", "5000000000"),
        ("--outptu", "x"),
    ],
)
def test_options_out_of_range_are_refused_with_a_usage_error(arguments):
    assert run("demo", *arguments).exit_code == 2


def test_what_a_user_can_mend_is_told_without_a_traceback(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "[/b]"
    monkeypatch.setattr(sys, "argv", ["dnc", "demo", "--epochs", "1", "--output", str(target)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    message = " ".join(capsys.readouterr().err.split())
    assert message.startswith("Error:")
    assert "Traceback" not in message
