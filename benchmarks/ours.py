"""Our side of the workloads: caches, and datasets drawn by class weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import NUM_LABELS, Data, halves, image_sample, pickled_image, tokens

if TYPE_CHECKING:
    from dsrt_lightning.loading.dataset import RTDataset
    from dsrt_lightning.store.manifest import Compression


class Source:
    """Part of the records of a workload."""

    def __init__(self, name: str, numbers: range, sample: Callable[[int], object]) -> None:
        self.name = name
        self._numbers = numbers
        self._sample = sample

    def __iter__(self) -> Iterator[Any]:
        from dsrt_lightning import CacheInput

        sample = self._sample
        for number in self._numbers:
            yield CacheInput(sample(number), {"label": number % NUM_LABELS})


def build(root: Path, count: int, sample: Callable[[int], object], **options: Any) -> None:
    """Build the two caches of ``count`` samples."""
    from dsrt_lightning import build_caches

    sources = [Source(name, numbers, sample) for name, numbers in halves(count)]
    for result in build_caches(sources, root, progress=False, **options):
        result.unwrap()


def image_store(codec: str, compression: str = "none") -> Callable[[Data], Path]:
    """Return what makes the caches of images once.

    Args:
        codec: One of ours; ``bytes`` holds the article's pickles, ``in_band`` is codec ``pickle`` with the picture in
            the pickle, as in theirs.
    """

    def write(data: Data, root: Path) -> None:
        from dsrt_lightning.store.codecs.pickle_codec import PickleCodec

        sample = pickled_image if codec == "bytes" else image_sample
        chosen = PickleCodec(in_band=True) if codec == "in_band" else codec
        build(root, data.size.images, sample, codec=chosen, compression=compression)

    return lambda data: data.once(f"ours-images-{codec}-{compression}", lambda root: write(data, root))


def token_store(compression: Compression | str = "none") -> Callable[[Data], Path]:
    """Return what makes the caches of tokens once."""
    name = compression if isinstance(compression, str) else compression.name

    def make(data: Data) -> Path:
        def write(root: Path) -> None:
            table = tokens(data.size.token_records)
            build(root, len(table), lambda i: {"tokens": table[i]}, codec="arrays", compression=compression)

        return data.once(f"ours-tokens-{name}", write)

    return make


def weighted(store: Path, epoch_length: int) -> RTDataset:
    """Return the records drawn with replacement, classes 1 : 2 : 4 : 8."""
    import polars as pl

    from dsrt_lightning import open_dataset

    dataset = open_dataset([store / "part0", store / "part1"], seed=7, epoch_length=epoch_length, allow_pickle=True)
    dataset.update_metadata(dataset.get_metadata().with_columns(weight=2.0 ** pl.col("label").cast(pl.Float64)))
    return dataset
