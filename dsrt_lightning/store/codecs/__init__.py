"""Codecs by name: the three built in, and those of installed packages."""

from __future__ import annotations

from importlib.metadata import entry_points

from dsrt_lightning.errors import UnknownCodecError
from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec
from dsrt_lightning.store.codecs.base import Codec
from dsrt_lightning.store.codecs.bytes_codec import BytesCodec
from dsrt_lightning.store.codecs.pickle_codec import PickleCodec

ENTRY_POINT_GROUP = "dsrt_lightning.codecs"
# Known without their entry points too, so that a source tree works uninstalled.
_BUILT_IN: dict[str, type[Codec]] = {codec.name: codec for codec in (BytesCodec, ArraysCodec, PickleCodec)}


def codec_class(name: str) -> type[Codec]:
    """Return the codec that is installed under ``name``.

    Raises:
        UnknownCodecError: None is, or what is installed is not a ``Codec`` of that name.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in installed:
        choices = ", ".join(sorted({*_BUILT_IN, *installed}))
        raise UnknownCodecError(f"codec {name!r} is not installed (codecs: {choices}); install the package that has it")
    loaded = installed[name].load()
    if not (isinstance(loaded, type) and issubclass(loaded, Codec) and loaded.name == name):
        raise UnknownCodecError(
            f"codec {name!r}: entry point {installed[name].value!r} is not a Codec class whose name is {name!r}; "
            "repair the package that provides it"
        )
    return loaded


def resolve_codec(codec: str | Codec) -> Codec:
    """Return a codec object for a name or a codec; a name means the codec's default options."""
    return codec if isinstance(codec, Codec) else codec_class(codec)()
