"""What the machine allows when nothing is wasted: the same records in plain files, mapped."""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import IMAGE_BYTES, TOKENS, Data, image, image_sample, pickled_image, tokens


def pickle_store(data: Data) -> Path:
    """Make one file of the article's pickles, and their ends."""

    def write(root: Path) -> None:
        ends = [0]
        with open(root / "records", "wb") as file:
            for number in range(data.size.images):
                ends.append(ends[-1] + file.write(pickled_image(number)))
        np.save(root / "ends.npy", ends)

    return data.once("limit-pickles", write)


def view_store(data: Data) -> Path:
    """Make one file of images, and one of the pickles that refer to them (protocol 5, out of band)."""

    def write(root: Path) -> None:
        ends = [0]
        with open(root / "records", "wb") as images, open(root / "heads", "wb") as heads:
            for number in range(data.size.images):
                buffers: list[pickle.PickleBuffer] = []
                head = pickle.dumps(image_sample(number), protocol=5, buffer_callback=buffers.append)
                images.write(buffers[0].raw())
                ends.append(ends[-1] + heads.write(head))
        np.save(root / "ends.npy", ends)

    return data.once("limit-views", write)


def image_rows(data: Data) -> Path:
    """Make one file of images alone."""

    def write(root: Path) -> None:
        with open(root / "records", "wb") as file:
            for number in range(data.size.images):
                file.write(image(number).data)

    return data.once("limit-images", write)


def token_rows(data: Data) -> Path:
    """Make one file of tokens alone."""
    return data.once("limit-tokens", lambda root: tokens(data.size.token_records).tofile(root / "records"))


def mapped(path: Path) -> memoryview:
    """Return the file's map."""
    with open(path, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))


def image_table(store: Path) -> NDArray[np.int64]:
    """Return the images as int64 ``[n, IMAGE_BYTES / 8]``: torch copies elements, so wide ones are fair."""
    return np.memmap(store / "records", np.int64, "r").reshape(-1, IMAGE_BYTES // 8)


def token_table(store: Path) -> NDArray[np.int32]:
    """Return the tokens as int32 ``[n, TOKENS]``."""
    return np.memmap(store / "records", np.int32, "r").reshape(-1, TOKENS)


class Gather:
    """One memcpy a record, into one batch that is used again and stays in the cache."""

    def __init__(self, table: NDArray[Any], batch: int, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._table = torch.from_numpy(table)
        self._batch = torch.empty((batch, table.shape[1]), dtype=self._table.dtype)

    def __call__(self, rows: NDArray[np.int64]) -> Any:
        """Return the batch of ``rows``, valid until the next call."""
        import torch

        return torch.index_select(self._table, 0, torch.from_numpy(rows), out=self._batch[: len(rows)])


class Ring:
    """Two forked processes fill slots of shared memory in turn; a byte crosses a pipe for each."""

    PROCESSES = 2
    SLOTS = 3  # each

    def __init__(self, shape: tuple[int, ...], dtype: type) -> None:
        """Make slots for batches of that shape."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._memory = mmap.mmap(-1, size * self.PROCESSES * self.SLOTS)
        slots = np.frombuffer(self._memory, dtype).reshape(self.PROCESSES, self.SLOTS, *shape)
        self._slots = [list(slots[process]) for process in range(self.PROCESSES)]

    def __call__(self, batches: Sequence[Any], fill: Callable[[Any, NDArray[Any]], int]) -> Iterator[NDArray[Any]]:
        """Yield the slot of each of ``batches``, which ``fill`` filled to the rows that it returns, until the next."""
        pipes = [(os.pipe(), os.pipe()) for _ in range(self.PROCESSES)]
        children = [self._fork(process, pipes[process], batches, fill) for process in range(self.PROCESSES)]
        try:
            for number in range(len(batches)):
                process, turn = number % self.PROCESSES, number // self.PROCESSES
                (filled, _), (_, freed) = pipes[process]
                rows = int.from_bytes(os.read(filled, 8), "little")
                yield self._slots[process][turn % self.SLOTS][:rows]
                os.write(freed, b"1")
        finally:
            for child in children:
                os.waitpid(child, 0)
            for descriptor in (end for both in pipes for pipe in both for end in pipe):
                os.close(descriptor)

    def _fork(self, process: int, pipes: Any, batches: Sequence[Any], fill: Callable[[Any, NDArray[Any]], int]) -> int:
        child = os.fork()
        if child:
            return child
        (_, filled), (freed, _) = pipes
        status = 1
        try:
            for turn, batch in enumerate(batches[process :: self.PROCESSES]):
                if turn >= self.SLOTS:
                    os.read(freed, 1)
                rows = fill(batch, self._slots[process][turn % self.SLOTS])
                os.write(filled, rows.to_bytes(8, "little"))
            status = 0
        finally:
            os._exit(status)
