"""JSON as a security boundary: every key and value is what the format says, or CorruptCacheError names it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

from dsrt_lightning.errors import CorruptCacheError


def parse_object(content: bytes, where: str) -> StrictObject:
    """Return the JSON object in ``content``; doubled keys and numbers that are not finite are refused too."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            raise ValueError(f"a key is there twice among {[key for key, _ in items]}")
        return found

    def constant(text: str) -> NoReturn:
        raise ValueError(f"{text} is no finite number")

    def finite(text: str) -> float:
        return number if math.isfinite(number := float(text)) else constant(text)

    try:
        value = json.loads(content.decode(), object_pairs_hook=pairs, parse_float=finite, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise CorruptCacheError(f"{where}: not valid JSON ({error}); restore or rebuild the cache") from error
    return StrictObject(value, where, "the file")


class StrictObject:
    """A JSON object read key by key; ``finish`` refuses the keys that nobody asked for."""

    def __init__(self, value: object, where: str, path: str) -> None:
        self._where = where
        self._path = path
        if not isinstance(value, dict):
            self._refuse(path, "an object", value)
        self._values: dict[str, Any] = value
        self._read: set[str] = set()

    def text(self, key: str) -> str:
        """Return a string."""
        if not isinstance(value := self._take(key), str):
            self._refuse(self._name(key), "a string", value)
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a string or None."""
        return None if self._take(key) is None else self.text(key)

    def integer(self, key: str, least: int, most: int) -> int:
        """Return an integer in ``[least, most]``."""
        value = self._take(key)
        if type(value) is not int or not least <= value <= most:
            self._refuse(self._name(key), f"an integer in [{least}, {most}]", value)
        return value

    def child(self, key: str) -> StrictObject:
        """Return a nested object."""
        return StrictObject(self._take(key), self._where, self._name(key))

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a nested object whose keys are somebody else's to check."""
        if not isinstance(value := self._take(key), dict):
            self._refuse(self._name(key), "an object", value)
        return value

    def objects(self, key: str) -> Iterator[StrictObject]:
        """Yield the objects of a list."""
        if not isinstance(values := self._take(key), list):
            self._refuse(self._name(key), "a list", values)
        for i, value in enumerate(values):
            yield StrictObject(value, self._where, f"{self._name(key)}[{i}]")

    def check(self, key: str, is_right: bool, expected: str) -> None:
        """Refuse the value of ``key`` unless ``is_right``."""
        if not is_right:
            self._refuse(self._name(key), expected, self._values[key])

    def finish(self) -> None:
        """Refuse keys that were not read."""
        if unknown := sorted(self._values.keys() - self._read):
            raise CorruptCacheError(
                f"{self._where}: {self._path} has the unknown keys {unknown}; restore or rebuild the cache"
            )

    def _take(self, key: str) -> Any:
        if key not in self._values:
            raise CorruptCacheError(f"{self._where}: {self._name(key)} is missing; restore or rebuild the cache")
        self._read.add(key)
        return self._values[key]

    def _name(self, key: str) -> str:
        return key if self._path == "the file" else f"{self._path}.{key}"

    def _refuse(self, name: str, expected: str, value: object) -> NoReturn:
        shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
        raise CorruptCacheError(
            f"{self._where}: {name} is {shown} but must be {expected}; restore or rebuild the cache"
        )
