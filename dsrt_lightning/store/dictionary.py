"""Training a zstd dictionary on the first records of a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsrt_lightning.errors import BuildError
from dsrt_lightning.store.codecs.base import Buffer

# zstd's own advice is a sample of a hundred times the dictionary.
_SAMPLES_PER_BYTE = 100
_MAX_SAMPLE_BYTES = 32 << 20


def take_sample(records: Iterable[Sequence[Buffer]], dictionary_bytes: int) -> list[bytes]:
    """Return copies of the first records, as many as training needs; it depends on nothing but them."""
    wanted = min(_SAMPLES_PER_BYTE * dictionary_bytes, _MAX_SAMPLE_BYTES)
    sample: list[bytes] = []
    for parts in records:
        sample.append(b"".join(bytes(part) for part in parts))
        wanted -= len(sample[-1])
        if wanted <= 0:
            break
    return sample


def train(sample: Sequence[bytes], dictionary_bytes: int, level: int, where: str) -> bytes:
    """Return a dictionary of at most ``dictionary_bytes``; equal samples give equal bytes.

    Raises:
        BuildError: The sample is too small or too uniform.
    """
    import zstandard

    try:
        return zstandard.train_dictionary(dictionary_bytes, list(sample), level=level).as_bytes()
    except zstandard.ZstdError as error:
        raise BuildError(
            f"{where}: no dictionary of {dictionary_bytes} bytes can be trained on its first {len(sample)} records "
            f"({sum(map(len, sample))} bytes): {error}; build without a dictionary"
        ) from error
