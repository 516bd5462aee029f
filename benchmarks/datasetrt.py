"""DatasetRT's side of the workloads, by its published wheel, as its own benchmark uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.data import NUM_LABELS, Data, halves, pickled_image, tokens

THREADS = 2


class Source:
    """Part of the records of a workload."""

    def __init__(self, name: str, numbers: range, payload: Callable[[int], bytes]) -> None:
        self.name = name
        self._numbers = numbers
        self._payload = payload

    def __iter__(self) -> Iterator[Any]:
        from dataset_rt import CacheInput

        payload = self._payload
        for number in self._numbers:
            yield CacheInput(payload(number), {"label": number % NUM_LABELS})


def write(root: Path, sources: list[Any]) -> None:
    """Build one cache a source."""
    import dataset_rt as rt

    config = rt.WriterConfig(show_progress=False, shard_compression=rt.ShardCompression(algo="none", ratio=1.0))
    for result in rt.DatasetRuntime(num_workers=THREADS).write_cache(sources, root, writer_config=config):
        if not isinstance(result, rt.CacheWriteSuccess):
            raise RuntimeError(result)


def build(root: Path, count: int, payload: Callable[[int], bytes]) -> None:
    """Build the two caches of ``count`` payloads."""
    write(root, [Source(name, numbers, payload) for name, numbers in halves(count)])


def image_store(data: Data) -> Path:
    """Make the caches of the article's pickles once."""
    return data.once("datasetrt-images", lambda root: build(root, data.size.images, pickled_image))


def token_store(data: Data) -> Path:
    """Make the caches of tokens once."""

    def make(root: Path) -> None:
        table = tokens(data.size.token_records)
        build(root, len(table), lambda i: table[i].tobytes())

    return data.once("datasetrt-tokens", make)


def opened(store: Path) -> Any:
    """Return both caches as one dataset."""
    import dataset_rt as rt

    config = rt.ReaderConfig(seed=7, prefetch_size=64, shuffle=True)
    return rt.DatasetRuntime(num_workers=THREADS).cached_dataset(
        [store / "part0", store / "part1"], reader_config=config
    )


def weighted(store: Path, epoch_length: int) -> Any:
    """Return the records drawn with replacement, classes 1 : 2 : 4 : 8."""
    import polars as pl

    dataset = opened(store)
    dataset.update_metadata(dataset.get_metadata().with_columns(weight=2.0 ** pl.col("label").cast(pl.Float64)))
    dataset.set_epoch_len(epoch_length)
    return dataset


def loader(dataset: Any, batch: int, workers: int, transform: Any, collate: Any) -> Any:
    """Return its DataLoader; ``transform`` gets samples, ``collate`` lists of what that returns."""
    return dataset.to_torch_dataloader(
        batch_size=batch,
        num_workers=workers,
        native_num_workers=THREADS,
        seed=7,
        shuffle=True,
        verbose=False,
        sample_transform_fn=transform,
        collate_fn=collate,
    )
