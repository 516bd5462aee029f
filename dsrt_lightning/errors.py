"""What can go wrong, one class for each thing a caller can do about it.

I/O failures stay ``OSError`` with ``filename`` set; wrong arguments stay ``ValueError`` or ``TypeError``.
"""

from __future__ import annotations


class DsrtError(Exception):
    """Base of every exception that this package defines."""


class CacheNotFoundError(DsrtError, FileNotFoundError):
    """There is no complete cache at the path; build it or correct the path."""


class CorruptCacheError(DsrtError):
    """Stored bytes are not what was written; restore or rebuild the named file."""


class FormatVersionError(DsrtError):
    """The file was written by another format version; upgrade the package or rebuild."""


class UnknownCodecError(DsrtError):
    """No installed codec has the name in the manifest; install the package that provides it."""


class PickleNotAllowedError(DsrtError):
    """A pickle cache runs code when it is read; pass ``allow_pickle=True`` only if you trust it."""


class FingerprintMismatchError(DsrtError):
    """A complete cache of the same name was built from other data; remove it or change the name."""


class OptionsMismatchError(DsrtError):
    """A complete cache of the same name was built with other options; use it as it is or remove it."""


class CacheBusyError(DsrtError):
    """Another process is building the cache; wait for it or choose another name."""


class CacheConflictError(DsrtError):
    """Opened caches contradict each other; open each only once, and do not replace one in use."""


class SourceNameError(DsrtError, ValueError):
    """A source's name cannot be that of a cache, or two sources share it; rename the source."""


class BuildError(DsrtError):
    """A source could not be built; nothing was published. The message names the record."""


class EncodeError(DsrtError):
    """A sample does not fit its codec or the schema of the samples before it."""


class DecodeError(DsrtError):
    """A stored record does not decode under its codec's schema."""


class ConfigError(DsrtError):
    """A configuration has unknown keys or wrong values; the message lists every one with its path."""


class RuleError(ConfigError):
    """A rule is wrong or does not fit the metadata; the message lists every problem with its path."""


class MetadataError(DsrtError):
    """A metadata frame cannot be the population; nothing was changed."""


class WeightError(MetadataError):
    """Weights are not finite, negative, or all zero."""


class EmptyPopulationError(MetadataError):
    """No row is left after the rules."""


class StateMismatchError(DsrtError):
    """A checkpoint belongs to another population, sampling, seed or format; restore them or start anew."""
