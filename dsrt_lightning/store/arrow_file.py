"""Arrow IPC files, written and rewritten batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa


class ArrowFile:
    """An uncompressed Arrow IPC file being written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.schema = schema
        self._sink = pa.OSFile(os.fspath(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)

    def write(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Append one record batch."""
        if columns:
            batch = pa.RecordBatch.from_arrays(list(columns), schema=self.schema)
        else:  # Without columns, the number of rows comes from an array of empty structs alone.
            batch = pa.RecordBatch.from_struct_array(pa.array([{}] * num_rows, type=pa.struct([])))
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer and close."""
        self._writer.close()
        self._sink.close()

    def discard(self) -> None:
        """Close without finishing; whether that succeeds does not matter to a file that will be removed."""
        with suppress(OSError):
            self._sink.close()


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a complete file, mapped."""
    with pa.memory_map(os.fspath(path)) as source, pa.ipc.open_file(source) as reader:
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)


def rewrite(path: Path, schema: pa.Schema, convert: Callable[[list[pa.Array]], list[pa.Array]]) -> ArrowFile:
    """Replace a complete file by one with converted columns, and return it open for more batches."""
    replacement = path.with_suffix(".rewritten")
    file = ArrowFile(replacement, schema)
    try:
        for batch in read_batches(path):
            file.write(convert(batch.columns), batch.num_rows)
        os.replace(replacement, path)
    except BaseException:
        file.discard()
        raise
    return file
