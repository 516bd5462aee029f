from __future__ import annotations

import errno
import mmap
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from dsrt_lightning._core import ShardWriter

OPTIONS: dict[str, Any] = {
    "shard_bytes": 1 << 20,
    "alignment": 1,
    "level": None,
    "dictionary": None,
    "threads": 2,
    "max_pending_bytes": 1 << 20,
}
NewWriter = Callable[..., ShardWriter]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "shards").mkdir()
    return tmp_path


@pytest.fixture
def new_writer(directory: Path) -> NewWriter:
    def make(**changes: Any) -> ShardWriter:
        return ShardWriter(str(directory), **{**OPTIONS, **changes})

    return make


def rows(directory: Path) -> list[tuple[int, int, int, int]]:
    """(offset, stored bytes, shard, CRC32C) of each record."""
    return list(struct.iter_unpack("<QQII", (directory / "index.bin").read_bytes()[64:]))


def records(directory: Path) -> list[bytes]:
    shards = [path.read_bytes() for path in sorted((directory / "shards").iterdir())]
    return [shards[shard][offset : offset + size] for offset, size, shard, _ in rows(directory)]


def crc32c(data: bytes) -> int:
    """Bit by bit, as the polynomial is defined; no code of the core's."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_written_bytes_are_the_format(new_writer: NewWriter, directory: Path) -> None:
    writer = new_writer(alignment=4, shard_bytes=8)
    for record in (b"abc", b"defg", b"h"):
        writer.append([record])
    writer.finish()
    assert (directory / "shards/000000.bin").read_bytes() == b"abc\0defg"
    assert (directory / "shards/000001.bin").read_bytes() == b"h"
    assert (directory / "index.bin").read_bytes().hex(" ", 8) == (
        "44535254494e4458 0100000018000000 0300000000000000 "  # magic; version, row bytes; records
        "0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 "
        "0000000000000000 0300000000000000 00000000b73f4b36 "  # offset; stored bytes; shard, CRC32C
        "0400000000000000 0400000000000000 000000004cff270e "
        "0000000000000000 0100000000000000 01000000fc9862b9"
    )


def test_summary_counts_records_and_lists_files_with_checksums(new_writer: NewWriter, directory: Path) -> None:
    writer = new_writer(alignment=8, shard_bytes=100)
    for size in (30, 60, 7):
        writer.append([bytes(size)])
    assert (writer.num_records, writer.raw_bytes) == (3, 97)
    summary = writer.finish()
    assert (summary.num_records, summary.raw_bytes, summary.stored_bytes) == (3, 97, 97)
    assert summary.max_record_bytes == 60
    assert [path for path, _, _ in summary.files] == ["index.bin", "shards/000000.bin", "shards/000001.bin"]
    for path, size, checksum in summary.files:
        content = (directory / path).read_bytes()
        assert (size, checksum) == (len(content), crc32c(content))


@pytest.mark.parametrize(
    "part",
    [
        b"\x01\x02\x03\x04",
        bytearray(b"\x01\x02\x03\x04"),
        memoryview(b"\x00\x01\x02\x03\x04")[1:],
        np.array([0x0201, 0x0403], "<u2"),
        np.array(0x04030201, "<u4"),
        np.array([[1, 2], [3, 4]], np.uint8),
    ],
    ids=lambda part: type(part).__name__,
)
def test_every_contiguous_buffer_is_taken_as_its_bytes(new_writer: NewWriter, directory: Path, part: Any) -> None:
    writer = new_writer()
    writer.append([part])
    writer.append((part, b"", part))
    writer.finish()
    assert records(directory) == [b"\x01\x02\x03\x04", b"\x01\x02\x03\x04" * 2]


def test_parts_may_change_as_soon_as_append_returns(new_writer: NewWriter, directory: Path) -> None:
    buffer = np.arange(100_000, dtype=np.int64)
    expected = buffer.tobytes()
    writer = new_writer()
    writer.append([buffer])
    buffer[:] = -1
    writer.finish()
    assert records(directory) == [expected]


def test_buffers_are_released(new_writer: NewWriter) -> None:
    writer = new_writer()
    part = bytearray(10)
    with mmap.mmap(-1, 4096) as mapped:
        writer.append([mapped, part])
        with pytest.raises(TypeError):
            writer.append([mapped, part, "text"])
    part.clear()  # BufferError while a view is held, as closing the map would be.
    assert writer.finish().num_records == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_compressed_records_decompress_to_what_was_appended(
    new_writer: NewWriter, directory: Path, threads: int
) -> None:
    dictionary = b"all records are alike, " * 20
    expected = [f"all records are alike, this is {i}".encode() * (i % 50) for i in range(3000)]
    writer = new_writer(level=3, dictionary=dictionary, threads=threads)
    for record in expected:
        writer.append([record])
    summary = writer.finish()
    assert summary.stored_bytes < summary.raw_bytes / 5
    frames = records(directory)
    zstd = zstandard.ZstdDecompressor(zstandard.ZstdCompressionDict(dictionary))
    assert [zstd.decompress(frame) for frame in frames] == expected
    assert [crc32c(frame) for frame in frames[:20]] == [checksum for _, _, _, checksum in rows(directory)[:20]]


def test_equal_records_give_equal_files_whatever_the_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = [rng.integers(0, 9, rng.integers(0, 20_000), dtype=np.uint8) for _ in range(400)]
    summaries = []
    for threads in (1, 2, 5):
        directory = tmp_path / str(threads)
        (directory / "shards").mkdir(parents=True)
        writer = ShardWriter(str(directory), **{**OPTIONS, "level": 5, "alignment": 16, "threads": threads})
        for record in data:
            writer.append([record])
        summaries.append(writer.finish().files)
    assert len(summaries[0]) > 2
    assert summaries[0] == summaries[1] == summaries[2]


@pytest.mark.parametrize("parts", [[1], ["text"], [None], 7, [b"first", object()]])
def test_parts_that_are_no_buffers_are_refused_and_nothing_is_appended(new_writer: NewWriter, parts: Any) -> None:
    writer = new_writer()
    with pytest.raises(TypeError):
        writer.append(parts)
    assert (writer.num_records, writer.raw_bytes) == (0, 0)


@pytest.mark.parametrize(
    "part", [np.zeros((4, 4))[:, ::2], np.asfortranarray(np.zeros((2, 3))), memoryview(b"abc")[::2]]
)
def test_a_part_that_is_not_c_contiguous_is_refused(new_writer: NewWriter, part: Any) -> None:
    with pytest.raises((ValueError, BufferError), match="contiguous"):
        new_writer().append([part])


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("shard_bytes", 0, r"shard_bytes is 0 but must be in \[1, "),
        ("alignment", 24, "alignment is 24 but must be a power of two"),
        ("alignment", 8192, r"alignment is 8192 but must be in \[1, 4096\]"),
        ("threads", 0, r"threads is 0 but must be in \[1, 256\]"),
        ("level", 23, r"level 23 is outside \[-131072, 22\]"),
        ("dictionary", b"12345", "a dictionary of 5 bytes needs a compression level"),
    ],
)
def test_an_option_out_of_range_is_refused_and_no_file_is_made(
    new_writer: NewWriter, directory: Path, option: str, value: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        new_writer(**{option: value})
    assert list(directory.rglob("*.bin")) == []


def test_a_missing_directory_and_an_existing_file_are_os_errors_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        ShardWriter(str(tmp_path / "none"), **OPTIONS)
    assert missing.value.filename == str(tmp_path / "none/index.bin")
    (tmp_path / "index.bin").touch()
    with pytest.raises(FileExistsError) as existing:
        ShardWriter(str(tmp_path), **OPTIONS)
    assert existing.value.filename == str(tmp_path / "index.bin")


def test_a_write_that_fails_on_a_thread_is_raised_with_the_path(new_writer: NewWriter, directory: Path) -> None:
    writer = new_writer()

    def append_forever() -> None:
        while True:
            writer.append([bytes(50_000)])

    with files_limited_to(100_000):
        with pytest.raises(OSError, match="write failed") as append:
            append_forever()
        with pytest.raises(OSError, match="write failed") as finish:
            writer.finish()
    for error in (append.value, finish.value):
        assert (error.errno, error.filename) == (errno.EFBIG, str(directory / "shards/000000.bin"))


def test_a_closed_writer_refuses_calls(new_writer: NewWriter, directory: Path) -> None:
    writer = new_writer()
    writer.abort()
    writer.abort()
    with pytest.raises(ValueError, match=f"append: the writer of {directory} is closed"):
        writer.append([b"a"])
    with pytest.raises(ValueError, match=f"finish: the writer of {directory} is closed"):
        writer.finish()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 advises what is tested here.
def test_a_forked_child_cannot_use_the_writer_of_its_parent(new_writer: NewWriter, directory: Path) -> None:
    writer = new_writer()
    child = os.fork()
    if child == 0:
        try:
            writer.finish()
        except RuntimeError as error:
            os._exit(0 if "was made before fork" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    writer.append([b"parent"])
    writer.finish()
    assert records(directory) == [b"parent"]


def test_an_interpreter_that_ends_with_an_open_writer_does_not_hang(directory: Path) -> None:
    code = f"""
from dsrt_lightning._core import ShardWriter
writer = ShardWriter({str(directory)!r}, **{OPTIONS!r})
for _ in range(100):
    writer.append([bytes(100_000)])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[1])


def test_a_record_may_have_many_parts_or_none(new_writer: NewWriter, directory: Path) -> None:
    writer = new_writer()
    writer.append([bytes([i]) for i in range(200)])
    writer.append([])
    writer.finish()
    assert records(directory) == [bytes(range(200)), b""]
