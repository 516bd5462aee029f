"""Attributes computed at their first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class lazy_property(Generic[T]):
    """``functools.cached_property`` without the lock that it takes before Python 3.12.

    A process forked while another thread computes the value would wait for that lock forever. Two threads may
    compute a value twice; it must not matter which one stays.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Return the value, kept in the instance so that this is not called again."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
