"""Files on the disk: whole or not there."""

import os
import time
from pathlib import Path

import pytest

from gateway.batch.blobs import ABANDONED_S, Blobs


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(blobs: Blobs, file_id: str, data: bytes) -> None:
    with blobs.write(file_id) as writer:
        writer.write(data)
        writer.commit()


def test_a_file_is_there_once_it_is_committed(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "files")
    with blobs.write("file-1") as writer:
        writer.write(b"one ")
        writer.write(b"two")
        assert writer.size == 7
        with pytest.raises(FileNotFoundError):
            blobs.open("file-1")
        writer.commit()
    assert blobs.path("file-1").read_bytes() == b"one two"
    assert blobs.read("file-1", 4, 3) == b"two"
    assert names(tmp_path / "files") == ["file-1"]


def test_what_is_not_committed_leaves_nothing(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)

    def broken() -> None:
        with blobs.write("file-1") as writer:
            writer.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert names(tmp_path) == []


def test_a_file_written_again_takes_the_place_of_the_first_in_one_step(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    write(blobs, "file-1", b"first")
    with blobs.open("file-1") as reader:
        write(blobs, "file-1", b"second")
        assert reader.read() == b"first"
    assert blobs.path("file-1").read_bytes() == b"second"


@pytest.mark.parametrize("file_id", ["", "../x", "a/b", "a.part", "ä", "a b"])
def test_what_is_no_id_names_no_path(tmp_path: Path, file_id: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        Blobs(tmp_path).path(file_id)


def test_deleting_twice_is_no_mistake(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    write(blobs, "file-1", b"x")
    blobs.delete("file-1")
    blobs.delete("file-1")
    assert names(tmp_path) == []


def test_what_was_left_half_written_is_removed_when_it_is_old(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    write(blobs, "file-1", b"x")
    write(blobs, "file-2", b"x")
    for name in ("file-3.old.part", "file-3.new.part"):
        (tmp_path / name).write_bytes(b"half")
    long_ago = time.time() - 2 * ABANDONED_S
    for name in ("file-1", "file-3.old.part"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    assert blobs.aged(3600) == ["file-1"]
    assert names(tmp_path) == ["file-1", "file-2", "file-3.new.part"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert Blobs(tmp_path / "none").aged(0) == []
    assert names(tmp_path) == []
