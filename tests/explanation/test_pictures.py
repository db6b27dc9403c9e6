import pytest

from dnc.explanation.pictures import whole_file


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file.txt"
    with whole_file(path) as unfinished:
        unfinished.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as unfinished:  # noqa: PT012
        unfinished.write_text("ne")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
