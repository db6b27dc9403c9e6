"""Commands as a user types them."""

from typer.testing import CliRunner, Result

from dnc.cli import app
from dnc.errors import DNCError

CLASSES = {"red": 12, "green": 12, "blaŭ": 12}


def run(*arguments: object, stdin: str | None = None) -> Result:
    """Runs `dnc` with these arguments."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def refused(*arguments: object) -> str:
    """What is told to the user of a command that fails as it should."""
    result = run(*arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, DNCError | SystemExit), result.exception
    return str(result.exception) + result.output
