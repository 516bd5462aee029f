"""The YAML file of an experiment: its keys, their types and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from dsrt_lightning.draws.mix import Stop
from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.loading.substitution import OnCorrupt

SPLITS = ("train", "val", "test", "predict")


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _mode_alone(cls, given: Any) -> Any:
        """Take ``sampling: shuffle`` for ``sampling: {mode: shuffle}``."""
        if isinstance(given, Mapping) and isinstance(mode := given.get("sampling"), str):
            return {**given, "sampling": {"mode": mode}}
        return given


class LoaderConfig(_Closed):
    """How batches of a split arrive; see :class:`~dsrt_lightning.loading.loader.RTLoader`.

    Attributes:
        batch_size: Rows of one rank's batch.
        fields: Names give a tuple, one name that field, null a dict of all fields.
        transform: A callable on a sample, or its dotted name inside a package under ``allow_imports``.
        batch_transform: The same on a batch.
        drop_last: Leave out draws that do not fill a global batch; null means for training only.
        on_corrupt: ``raise`` the error of a broken record, or ``skip`` it: a sound one takes its place.
        workers: 0 reads in threads, more are DataLoader processes.
        threads: Threads that read or decode; 0 decodes and transforms where batches are asked for.
        prefetch_batches: Batches made ahead.
        prefetch_bytes: Bytes made ahead.
        device_prefetch: Where a run trains on a GPU, copy each batch there while the one before it is used.
    """

    batch_size: int = Field(default=32, ge=1)
    fields: list[str] | str | None = None
    transform: Any = None
    batch_transform: Any = None
    drop_last: bool | None = None
    on_corrupt: OnCorrupt = "raise"
    workers: int = Field(default=0, ge=0)
    threads: int = Field(default=2, ge=0)
    prefetch_batches: int = Field(default=4, ge=1)
    prefetch_bytes: int = Field(default=256 << 20, ge=1)
    device_prefetch: bool = True


class MixPartConfig(_Closed):
    """One population of a mix.

    Attributes:
        ratio: Its part of every batch, as a number ``> 0`` relative to the other parts'.
        caches: Those of the config's caches that it draws from; null is all.
        rules: Applied after the rules above it, top to bottom.
        sampling: How it is drawn; null is ``shuffle``.
    """

    ratio: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    caches: list[str] | None = None
    rules: list[dict[str, Any]] = Field(default_factory=list)
    sampling: Sampling | None = None


class MixConfig(_Closed):
    """Several populations drawn as one, by ratio; see :class:`~dsrt_lightning.draws.mix.Mixing`.

    Attributes:
        parts: The populations by name.
        stop: When an epoch ends.
        epoch_length: Draws of an epoch, for ``stop: none``.
    """

    parts: dict[str, MixPartConfig] = Field(min_length=1)
    stop: Stop = "first_exhausted"
    epoch_length: int | None = None


class SetConfig(_Closed):
    """Rows, how they are drawn, and how they are loaded.

    Attributes:
        rules: Applied after the rules above it, top to bottom.
        sampling: How an epoch is drawn; null is ``weighted`` for training and ``sequential`` elsewhere.
        mix: Several populations drawn as one, instead of ``sampling``.
        loader: How batches arrive.
    """

    rules: list[dict[str, Any]] = Field(default_factory=list)
    sampling: Sampling | None = None
    mix: MixConfig | None = None
    loader: LoaderConfig = Field(default_factory=LoaderConfig)


class LoaderOverrides(_Closed):
    """What a set's loader has otherwise than its split's; null takes over the split's setting."""

    batch_size: int | None = Field(default=None, ge=1)
    fields: list[str] | str | None = None
    transform: Any = None
    batch_transform: Any = None
    drop_last: bool | None = None
    on_corrupt: OnCorrupt | None = None
    workers: int | None = Field(default=None, ge=0)
    threads: int | None = Field(default=None, ge=0)
    prefetch_batches: int | None = Field(default=None, ge=1)
    prefetch_bytes: int | None = Field(default=None, ge=1)
    device_prefetch: bool | None = None


class NamedSetConfig(_Closed):
    """One of a split's sets; see :class:`SetConfig` for its keys."""

    rules: list[dict[str, Any]] = Field(default_factory=list)
    sampling: Sampling | None = None
    mix: MixConfig | None = None
    loader: LoaderOverrides = Field(default_factory=LoaderOverrides)


class SplitConfig(SetConfig):
    """One split: one loader, or several that share what stands here and may differ in what they add.

    Attributes:
        sets: Loaders by name. Each applies its rules after the split's, and takes the split's sampling and loader
            settings where it gives none. Training combines them, validation and the others go through one by one.
        combine: How training combines the loaders of ``sets``; the modes are those of Lightning's ``CombinedLoader``
            that its fit loop takes.
    """

    sets: dict[str, NamedSetConfig] = Field(default_factory=dict)
    combine: Literal["max_size_cycle", "min_size", "max_size"] = "max_size_cycle"


class DatasetRTConfig(_Closed):
    """An experiment's data, as written in YAML.

    Attributes:
        caches: Directories of caches, relative to the working directory.
        seed: Of all draws; in ``[0, 2**64)``.
        rules: Applied for every split, top to bottom.
        train: The training split.
        val: The validation split.
        test: The test split.
        predict: The prediction split.
        verify: When records are checked against their CRC32C.
        allow_pickle: Open caches of pickled samples; reading one runs code it contains.
        allow_imports: Packages that dotted names of transforms may resolve in.
    """

    caches: list[str] = Field(min_length=1)
    seed: int = Field(default=0, ge=0, lt=2**64)
    rules: list[dict[str, Any]] = Field(default_factory=list)
    train: SplitConfig | None = None
    val: SplitConfig | None = None
    test: SplitConfig | None = None
    predict: SplitConfig | None = None
    verify: Literal["first", "always", "never"] = "first"
    allow_pickle: bool = False
    allow_imports: list[str] = Field(default_factory=list)

    _where: str = PrivateAttr("cfg")

    @property
    def where(self) -> str:
        """What the config was read from, for messages."""
        return self._where

    @property
    def splits(self) -> dict[str, SplitConfig]:
        """The splits that the file describes, by name."""
        return {name: split for name in SPLITS if (split := getattr(self, name)) is not None}

    def plain(self) -> dict[str, Any]:
        """Return the config as dicts, lists and primitives, callables by name: what a checkpoint may hold."""
        return _plain(self.model_dump(exclude_defaults=True))  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return str(value)
