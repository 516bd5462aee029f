"""Several populations drawn as one, by ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from dsrt_lightning import _core
from dsrt_lightning.draws.apportion import apportion, whole_shares
from dsrt_lightning.draws.sampling import Sampling
from dsrt_lightning.draws.stream import DrawStream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dsrt_lightning.draws.stream import Drawable

Stop = Literal["first_exhausted", "all_exhausted", "none"]


@dataclass(frozen=True)
class Mixing:
    """How several populations are drawn as one; a checkpoint names it by :meth:`text`.

    Attributes:
        ratios: One number ``> 0`` a component; only their ratios count.
        samplings: How each component is drawn. One with ``quota`` meets its shares in every batch of the mix if its
            ratio gives it a whole number of rows there.
        stop: When an epoch of the mix ends: ``first_exhausted`` before any component would begin its next epoch,
            ``all_exhausted`` when each has finished one, the others going on into their next epochs; ``none`` after
            ``epoch_length`` draws.
        epoch_length: Draws of an epoch of the mix over all ranks; for ``stop="none"`` only.

    Raises:
        ValueError: A number is missing or out of range, or the counts of ratios and samplings differ.
    """

    ratios: tuple[float, ...]
    samplings: tuple[Sampling, ...]
    stop: Stop = "first_exhausted"
    epoch_length: int | None = None

    def __post_init__(self) -> None:
        if not self.ratios or len(self.ratios) != len(self.samplings):
            raise ValueError(f"mix: there are {len(self.ratios)} ratios and {len(self.samplings)} samplings; give each")
        for number, ratio in enumerate(self.ratios):
            if not 0 < ratio < float("inf"):
                raise ValueError(f"mix: ratios[{number}] is {ratio!r} but must be finite and above 0")
        if self.stop not in get_args(Stop):
            raise ValueError(f"mix: stop is {self.stop!r} but must be one of {', '.join(get_args(Stop))}")
        if (self.stop == "none") != (self.epoch_length is not None):
            raise ValueError(f"mix: epoch_length is {self.epoch_length} with stop {self.stop!r}; 'none' alone needs it")
        if self.epoch_length is not None and self.epoch_length < 1:
            raise ValueError(f"mix: epoch_length is {self.epoch_length} but must be at least 1")

    @property
    def uses_global_batch(self) -> bool:
        """Whether the draws are a function of the global batch too: always, since every batch meets the ratios."""
        return True

    def text(self) -> str:
        """Return the canonical text: equal for equal mixings."""
        length = "" if self.epoch_length is None else f" epoch_length={self.epoch_length}"
        parts = (f"[{float(r)} {s.text()}]" for r, s in zip(self.ratios, self.samplings, strict=True))
        return f"mix stop={self.stop}{length} {' '.join(parts)}"


class MixStream:
    """The draws of every epoch and pass over several populations, laid end to end.

    Every global batch and every epoch holds each component's ratio, to within one draw. A component is drawn from
    its first position on without gaps, over the epochs of the mix too, and with a seed of its own: the same
    population given twice is drawn independently.

    Args:
        populations: One for each component.
        mixing: How they are drawn.
        seed: In ``[0, 2**64)``.
        global_batch: Rows of a batch over all ranks, ``>= 1``.

    Attributes:
        epoch_length: Draws of an epoch over all ranks.
        components: The components' own draws.
        native: The draws themselves.

    Raises:
        ValueError: A number is out of range, or a component's ratio comes to no draw of an epoch.
    """

    def __init__(self, populations: Sequence[Drawable], mixing: Mixing, seed: int, *, global_batch: int) -> None:
        if len(populations) != len(mixing.ratios):
            raise ValueError(f"mix: there are {len(populations)} populations but {len(mixing.ratios)} ratios")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed is {seed} but must lie in [0, 2^64)")
        if global_batch < 1:
            raise ValueError(f"mix: global_batch is {global_batch} but must be at least 1")
        self.populations = tuple(populations)
        self.mixing = mixing
        self.seed = seed
        self.global_batch = global_batch
        shares = whole_shares(mixing.ratios)
        self.components = tuple(
            DrawStream(
                population,
                sampling,
                _core.mix_component_seed(seed, number),
                global_batch=max(1, global_batch * shares[number] // sum(shares)),
            )
            for number, (population, sampling) in enumerate(zip(populations, mixing.samplings, strict=True))
        )
        self.epoch_length = self._length(shares)
        parts = apportion(shares, self.epoch_length, global_batch)
        for number, ratio in enumerate(mixing.ratios):
            if parts.draws_per_epoch(number) == 0:
                raise ValueError(
                    f"mix: ratios[{number}] is {ratio} and comes to 0 of {self.epoch_length} draws in an epoch; raise "
                    "it, or draw longer epochs"
                )
        self.native = _core.MixDraws(parts, seed, tuple(stream.native for stream in self.components))

    def positions(self, epoch: int, pass_: int, start: int, count: int) -> NDArray[np.int64]:
        """Return part of one epoch's draws; like :meth:`DrawStream.positions`.

        Returns:
            int64 ``[count]`` indices into the rows of the populations, laid end to end in their order.
        """
        return self.native.draw(epoch, pass_, start, count)

    def __reduce__(self) -> tuple[Callable[..., MixStream], tuple[object, ...]]:
        return _remake, (self.populations, self.mixing, self.seed, self.global_batch)

    def _length(self, shares: list[int]) -> int:
        if self.mixing.epoch_length is not None:
            return self.mixing.epoch_length
        whole = sum(shares)
        lengths = [stream.epoch_length for stream in self.components]
        if self.mixing.stop == "first_exhausted":
            return min(length * whole // share for length, share in zip(lengths, shares, strict=True))
        return max(-(-length * whole // share) for length, share in zip(lengths, shares, strict=True))


def _remake(populations: Sequence[Drawable], mixing: Mixing, seed: int, global_batch: int) -> MixStream:
    return MixStream(populations, mixing, seed, global_batch=global_batch)
