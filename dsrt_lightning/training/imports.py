"""Callables that a YAML file names, only from packages that the user allows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from dsrt_lightning.errors import ConfigError


def resolve_callable(value: Any, *, allow: Sequence[str], where: str) -> Callable[..., Any] | None:
    """Return the callable that ``value`` is or names; a class is instantiated without arguments.

    Args:
        value: None, a callable, or ``package.module.name``.
        allow: Packages or modules that a name may resolve in.
        where: Place of the value in its file, for messages.

    Raises:
        ConfigError: The name is not inside ``allow``, does not exist, or is not callable.
    """
    if value is None or (callable(value) and not isinstance(value, str)):
        return value
    if not isinstance(value, str):
        raise ConfigError(f"{where}: is a {type(value).__name__} but must be a callable or its dotted name")
    module_name, _, attribute = value.rpartition(".")
    if not _inside(module_name, allow):
        listed = ", ".join(allow) if allow else "none"
        raise ConfigError(f"{where}: {value!r} is in no package that may be imported (allow_imports: {listed})")
    try:
        target = getattr(importlib.import_module(module_name), attribute)
    except ImportError as error:
        raise ConfigError(f"{where}: module {module_name!r} cannot be imported: {error}") from error
    except AttributeError as error:
        raise ConfigError(f"{where}: module {module_name!r} has no {attribute!r}") from error
    # A function that the module merely imported from elsewhere is not the package's own.
    origin = getattr(target, "__module__", None) if hasattr(target, "__qualname__") else module_name
    if not _inside(origin or "", allow):
        raise ConfigError(f"{where}: {value!r} comes from module {origin!r}, which allow_imports does not name")
    target = target() if isinstance(target, type) else target
    if not callable(target):
        raise ConfigError(f"{where}: {value!r} is a {type(target).__name__} and cannot be called")
    return target  # type: ignore[no-any-return]


def _inside(module: str, allow: Sequence[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allow)
