"""zstd records, level 3, into tensors: two native threads against ``zstandard`` in one Python thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import limits, ours, w2
from benchmarks.case import Case, Measures, Row, time_passes
from benchmarks.data import Data, check_images, check_tokens, image, tokens, weighted_rows

LEVEL = 3
DICTIONARY_BYTES = 16 << 10


def _frames(name: str, records: Callable[[Data], Iterator[bytes]], *, dictionary: bool) -> Callable[[Data], Path]:
    def make(data: Data) -> Path:
        def write(root: Path) -> None:
            import zstandard

            trained = None
            if dictionary:
                sample = [record for record, _ in zip(records(data), range(20_000), strict=False)]
                trained = zstandard.train_dictionary(DICTIONARY_BYTES, sample)
                (root / "dictionary").write_bytes(trained.as_bytes())
            compressor = zstandard.ZstdCompressor(LEVEL, trained)
            ends = [0]
            with open(root / "records", "wb") as file:
                for record in records(data):
                    ends.append(ends[-1] + file.write(compressor.compress(record)))
            np.save(root / "ends.npy", ends)

        return data.once(f"limit-zstd-{name}", write)

    return make


def _python(data: Data, store: Path, count: int, draws: int) -> Measures:
    import zstandard

    has_dictionary = (store / "dictionary").exists()
    trained = zstandard.ZstdCompressionDict((store / "dictionary").read_bytes()) if has_dictionary else None
    decompress = zstandard.ZstdDecompressor(trained).decompress
    records, ends = limits.mapped(store / "records"), np.load(store / "ends.npy").tolist()

    def passed() -> Iterator[int]:
        for row in weighted_rows(count, draws).tolist():
            yield len(decompress(records[ends[row] : ends[row + 1]]))

    return time_passes(passed, lambda size: 1 if size else 0, draws, data.size.passes)


def _python_images(data: Data, store: Path) -> Measures:
    return _python(data, store, data.size.images, data.size.images)


def _python_tokens(data: Data, store: Path) -> Measures:
    return _python(data, store, data.size.token_records, data.size.token_draws)


def _ours_images(data: Data, store: Path) -> Measures:
    from dsrt_lightning import RTLoader

    dataset = ours.weighted(store, data.size.images)
    loader = RTLoader(dataset, batch_size=data.size.image_batch, fields=["image", "id"])
    return time_passes(lambda: loader, lambda batch: check_images(*batch), data.size.images, data.size.passes)


def _ours_tokens(data: Data, store: Path) -> Measures:
    from dsrt_lightning import RTLoader

    dataset = ours.weighted(store, data.size.token_draws)
    loader = RTLoader(dataset, batch_size=data.size.token_batch, fields="tokens")
    return time_passes(lambda: loader, check_tokens, data.size.token_draws, data.size.passes)


def _image_records(data: Data) -> Iterator[bytes]:
    return (image(number).tobytes() for number in range(data.size.images))


def _token_records(data: Data) -> Iterator[bytes]:
    return (row.tobytes() for row in tokens(data.size.token_records))


def _ours_token_store(data: Data) -> Path:
    from dsrt_lightning.store.manifest import Compression

    return ours.token_store(Compression(level=LEVEL, dictionary_bytes=DICTIONARY_BYTES))(data)


CASES = {
    "ours_images": Case("ours", ours.image_store("arrays", "zstd"), _ours_images),
    "ours_tokens": Case("ours", _ours_token_store, _ours_tokens),
    "python_images": Case("limit", _frames("images", _image_records, dictionary=False), _python_images),
    "python_tokens": Case("limit", _frames("tokens", _token_records, dictionary=True), _python_tokens),
    # What nobody has to decompress, copied into batches.
    "limit_gather": w2.CASES["limit_gather_2"],
}


def _row(name: str, kind: str, limit: str | None, amount: Callable[[Data], float]) -> Row:
    return Row(f"zstd, {name}", f"ours_{kind}.steady", f"python_{kind}.steady", limit, 1.8, amount, "samples/s")


ROWS = [
    _row("images", "images", "limit_gather.steady", lambda data: data.size.images),
    _row("tokens with a dictionary", "tokens", None, lambda data: data.size.token_draws),
]
