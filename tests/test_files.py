import pytest

from dnc.files import restore_folder, whole_file, whole_folder


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file.txt"
    with whole_file(path) as unfinished:
        unfinished.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as unfinished:  # noqa: PT012
        unfinished.write_text("ne")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(IsADirectoryError, match="is a folder"), whole_file(tmp_path):
        pass


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder"
    with whole_folder(path) as unfinished:
        (unfinished / "old").touch()
    with pytest.raises(KeyboardInterrupt), whole_folder(path) as unfinished:  # noqa: PT012
        (unfinished / "new").touch()
        raise KeyboardInterrupt
    assert [file.name for file in path.iterdir()] == ["old"]
    with whole_folder(path) as unfinished:
        (unfinished / "new").touch()
    assert [file.name for file in path.iterdir()] == ["new"]
    assert [folder.name for folder in tmp_path.iterdir()] == ["folder"]


def test_a_folder_survives_a_process_that_died_between_two_renames(tmp_path):
    (tmp_path / "folder.replaced").mkdir()
    (tmp_path / "folder.replaced" / "old").touch()
    restore_folder(tmp_path / "folder")
    assert [file.name for file in (tmp_path / "folder").iterdir()] == ["old"]
    restore_folder(tmp_path / "never")
    assert not (tmp_path / "never").exists()
