"""Where the draws stand, and the state that a checkpoint keeps of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dsrt_lightning.draws.batch_plan import BatchPlan
from dsrt_lightning.errors import StateMismatchError

FORMAT = "dsrt.draws"
VERSION = 1

State = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """What a draw stream is a function of; a state fits only the stream it was taken from.

    Attributes:
        population: The population's digest.
        population_size: Its number of rows.
        sampling: The canonical text of the sampling.
        seed: In ``[0, 2**64)``.
        global_batch: Rows of a batch over all ranks, where the draws depend on it; else None.
    """

    population: str
    population_size: int
    sampling: str
    seed: int
    global_batch: int | None = None


class Cursor:
    """The position of one consumer in the draws: an epoch, a pass of it, and samples consumed over all ranks.

    Lightning finds it as ``loader.sampler`` and calls :meth:`set_epoch`. It never runs ahead: it moves when a
    batch is handed out, so its state is the same on every rank and does not know of prefetching or workers.
    """

    def __init__(self, identity: StreamIdentity, plan: BatchPlan) -> None:
        self.identity = identity
        self.plan = plan
        self.epoch = 0
        self.pass_ = 0
        self.samples = 0
        self._consumed = False

    def __len__(self) -> int:
        """Batches of a whole pass."""
        return len(self.plan)

    @property
    def exhausted(self) -> bool:
        """Whether the pass has no further batch."""
        return self.plan.num_left(self.samples) == 0

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of another epoch; naming the present epoch changes nothing.

        Raises:
            ValueError: ``epoch`` is negative.
        """
        if epoch < 0:
            raise ValueError(f"epoch is {epoch} but must be at least 0")
        if epoch != self.epoch:
            self._go_to(epoch, 0, 0)

    def rewind(self) -> None:
        """Begin another iteration: the next pass if anything of this one was consumed, else no change."""
        if self._consumed:
            self._go_to(self.epoch, self.pass_ + 1, 0)

    def advance(self) -> None:
        """Count one global batch as handed out."""
        self.samples = self.plan.after(self.samples)
        self._consumed = True

    def state_dict(self, *, in_flight: int = 0) -> State:
        """Return the state as primitives, equal on every rank.

        Args:
            in_flight: Batches that were handed out but not used; they are given out again after a resume.
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            "epoch": self.epoch,
            "pass": self.pass_,
            "samples": self._samples_before(in_flight),
            "seed": self.identity.seed,
            "population": self.identity.population,
            "population_size": self.identity.population_size,
            "sampling": self.identity.sampling,
            "global_batch": self.plan.global_batch,
        }

    def load_state_dict(self, state: Mapping[str, object], *, stay_at_end: bool = False) -> None:
        """Go to a saved state; one at the end of a pass continues with the next pass.

        Another global batch than the state's is fine: samples are counted, not batches. At the beginning of an epoch
        another ``epoch_length`` is fine too.

        Args:
            state: From :meth:`state_dict`.
            stay_at_end: Leave a pass that has ended at its end, so that its next iteration is empty.

        Raises:
            StateMismatchError: The state is no state of ours, or of another population, sampling or seed. The
                cursor has not moved.
        """
        epoch, pass_, samples = check_state(state, self.identity)
        self._go_to(epoch, pass_, samples)
        if self.exhausted and not stay_at_end:
            self._go_to(epoch, pass_ + 1, 0)

    def _go_to(self, epoch: int, pass_: int, samples: int) -> None:
        self.epoch, self.pass_, self.samples = epoch, pass_, samples
        self._consumed = False

    def _samples_before(self, in_flight: int) -> int:
        if in_flight == 0:
            return self.samples
        # A last, partial global batch counts for its own size, so step back over batch starts.
        size = self.plan.global_batch
        batches = -(-self.samples // size)
        return max(0, (batches - in_flight) * size)


def check_state(state: Mapping[str, object], identity: StreamIdentity) -> tuple[int, int, int]:
    """Return ``(epoch, pass, samples)`` of a state that belongs to the stream.

    Raises:
        StateMismatchError: It does not, with both values and the way out.
    """
    if state.get("format") != FORMAT:
        raise StateMismatchError(
            f"the state's format is {state.get('format')!r} but {FORMAT!r} is expected; it was not saved by a "
            "dsrt_lightning loader"
        )
    if state.get("version") != VERSION:
        raise StateMismatchError(
            f"the state has version {state.get('version')!r} but this package reads version {VERSION}; resume with "
            "the package that saved it"
        )
    expected: dict[str, int | str] = {
        "population": identity.population,
        "population_size": identity.population_size,
        "sampling": identity.sampling,
        "seed": identity.seed,
    }
    counters = ("epoch", "pass", "samples")
    missing = [key for key in (*counters, *expected) if key not in state]
    if missing:
        raise StateMismatchError(f"the state lacks {', '.join(missing)}; it is truncated, use another checkpoint")
    if state["population"] != identity.population or state["population_size"] != identity.population_size:
        raise StateMismatchError(
            f"sampler state belongs to population {_short(state['population'])} ({state['population_size']} rows) but "
            f"the rules now select {_short(identity.population)} ({identity.population_size} rows); restore the rules "
            "or start anew"
        )
    at_start = state["pass"] == 0 and state["samples"] == 0
    if at_start and _without_length(state["sampling"]) == _without_length(identity.sampling):
        expected["sampling"] = state["sampling"]  # type: ignore[assignment]
    for key in ("sampling", "seed"):
        if state[key] != expected[key]:
            raise StateMismatchError(
                f"sampler state has {key} {state[key]!r} but the run has {expected[key]!r}; restore it or start anew"
            )
    if identity.global_batch is not None and state.get("global_batch") != identity.global_batch:
        raise StateMismatchError(
            f"sampler state has global_batch {state.get('global_batch')!r} but the run has {identity.global_batch}, "
            f"on which {identity.sampling!r} depends; make batch_size x ranks what it was, or start anew"
        )
    return _count(state, "epoch"), _count(state, "pass"), _count(state, "samples")


def _count(state: Mapping[str, object], key: str) -> int:
    value = state[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise StateMismatchError(f"the state's {key} is {value!r} but must be an integer of at least 0")
    return value


def _without_length(sampling: object) -> str:
    return re.sub(r" epoch_length=\d+", "", str(sampling))


def _short(digest: object) -> str:
    return str(digest)[:12]
