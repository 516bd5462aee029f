"""Nested dicts as flat ones with dotted names, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsrt_lightning.errors import EncodeError


def flatten(sample: object, prefix: str = "") -> dict[str, Any]:
    """Return ``{"a": {"b": x}}`` as ``{"a.b": x}``, in the dicts' own order.

    Raises:
        EncodeError: ``sample`` is no dict, or it has a key or an empty dict that would not come back.
    """
    if not isinstance(sample, Mapping):
        raise EncodeError(
            f"the sample is a {type(sample).__name__} but codec 'arrays' stores dicts of arrays; "
            "name its parts, as in {'image': image}"
        )
    leaves: dict[str, Any] = {}
    for key, value in sample.items():
        if not isinstance(key, str) or not key or "." in key:
            raise EncodeError(f"the key {key!r} is not a non-empty string without '.'; rename it")
        if not isinstance(value, Mapping):
            leaves[prefix + key] = value
        elif value:
            leaves |= flatten(value, f"{prefix}{key}.")
        else:
            raise EncodeError(f"{prefix}{key} is an empty dict, which would not come back; leave it out")
    return leaves


def nest(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"a.b": x}`` as ``{"a": {"b": x}}``; the names are free of clashes."""
    sample: dict[str, Any] = {}
    for name, value in leaves.items():
        *parents, leaf = name.split(".")
        target = sample
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = value
    return sample


def clash(names: Sequence[str]) -> str | None:
    """Return why fields of these dotted names cannot stand in one nested dict, or None if they can."""
    for name in names:
        if names.count(name) > 1:
            return f"{name!r} is there {names.count(name)} times"
        parts = name.split(".")
        if "" in parts:
            return f"{name!r} is empty or has an empty part"
        for depth in range(1, len(parts)):
            if (parent := ".".join(parts[:depth])) in names:
                return f"{parent!r} cannot be both a field and the parent of {name!r}"
    return None
