"""Keeps Lightning's counters and our draws in step, so that a resume is exact at every checkpoint.

Lightning saves a loader's state at moments when a fetched batch may not have been trained, restores it only in some
cases, and leaves its own counters inconsistent at the end of an epoch. So the state lives in the datamodule, and this
callback, which ``setup`` registers, does two things: it notes the state after each trained batch, and it puts the
counters of a checkpoint right before Lightning reads them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl

from dsrt_lightning.draws.cursor import FORMAT, VERSION
from dsrt_lightning.errors import StateMismatchError

if TYPE_CHECKING:
    from dsrt_lightning.draws.cursor import State
    from dsrt_lightning.loading.loader import RTLoader

PARTS_FORMAT = "dsrt.draws.parts"

# Lightning's four counters of a loop, in the order in which they advance.
_COUNTERS = ("ready", "started", "processed", "completed")


class TrainingDraws:
    """The training loaders of a run and the state that a checkpoint keeps of them.

    One loader's state is its own dict; several are kept by name. A state that arrives before the loaders is given to
    them when they are made.
    """

    def __init__(self) -> None:
        self._loaders: dict[str, RTLoader] = {}
        self._trained: dict[str, State] = {}
        self._restored: dict[str, Mapping[str, object]] | None = None
        self._stay_at_end = False

    def clear(self) -> None:
        """Forget everything: another run begins."""
        self._loaders, self._trained, self._restored = {}, {}, None

    def begin(self, loaders: Mapping[str, RTLoader], *, stay_at_end: bool = False) -> None:
        """Take over the loaders of a run, and continue them where a restored state or the loaders before them stand.

        Lightning may make the loaders of one epoch twice, and between epochs it then names the new one.

        Args:
            loaders: By name.
            stay_at_end: A loader that has ended gives nothing more in its epoch, however long the others are.

        Raises:
            StateMismatchError: The restored state has other parts, or belongs to other draws.
        """
        before, self._loaders = self._loaders, dict(loaders)
        self._stay_at_end = stay_at_end
        if self._restored is not None:
            self._continue_from(self._restored)
            self._restored = None
        else:
            for name, loader in self._loaders.items():
                if name in before and before[name].sampler.identity == loader.sampler.identity:
                    loader.load_state_dict(before[name].state_dict(), stay_at_end=stay_at_end)
        self.note_trained()

    def note_trained(self) -> None:
        """Remember that everything handed out so far was trained."""
        self._trained = {name: loader.state_dict() for name, loader in self._loaders.items()}

    def state_dict(self, *, batch_in_flight: bool) -> dict[str, Any]:
        """Return the state to save: without the batch in flight, if there is one.

        Args:
            batch_in_flight: A batch was handed out and not trained.
        """
        if not self._loaders:
            return {} if self._restored is None else _join(self._restored)
        if batch_in_flight:
            return _join(self._trained)
        return _join({name: loader.state_dict() for name, loader in self._loaders.items()})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``, now or as soon as there are loaders.

        Raises:
            StateMismatchError: It is no state of ours, or belongs to other draws.
        """
        parts = parts_of(state)
        if self._loaders:
            self._continue_from(parts)
            self.note_trained()
        else:
            self._restored = parts

    def go_to_epoch(self, epoch: int) -> None:
        """Let restored states continue at the beginning of ``epoch``."""
        if self._restored is not None:
            at_start = {"epoch": epoch, "pass": 0, "samples": 0}
            self._restored = {name: {**state, **at_start} for name, state in self._restored.items()}
        for loader in self._loaders.values():
            loader.load_state_dict({**loader.state_dict(), "epoch": epoch, "pass": 0, "samples": 0})
        self.note_trained()

    def _continue_from(self, parts: Mapping[str, Mapping[str, object]]) -> None:
        if len(parts) == 1 and len(self._loaders) == 1:
            parts = dict(zip(self._loaders, parts.values(), strict=True))
        if parts.keys() != self._loaders.keys():
            raise StateMismatchError(
                f"the checkpoint has draws for {', '.join(sorted(parts))} but the run trains on "
                f"{', '.join(sorted(self._loaders))}; restore the configuration or start anew"
            )
        for name, state in parts.items():
            self._loaders[name].load_state_dict(state, stay_at_end=self._stay_at_end)


def _join(parts: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
    if len(parts) == 1:
        return dict(next(iter(parts.values())))
    return {"format": PARTS_FORMAT, "version": VERSION, "parts": {name: dict(state) for name, state in parts.items()}}


def parts_of(state: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a saved state's loaders' states by name; a single one is called ``train``."""
    if state.get("format") == PARTS_FORMAT and isinstance(state.get("parts"), Mapping):
        return dict(state["parts"])
    return {"train": state}


def is_draws_state(value: object) -> bool:
    """Whether a checkpoint's entry is a state of ours, whatever class saved it."""
    return isinstance(value, Mapping) and value.get("format") in (FORMAT, PARTS_FORMAT)


class ExactResume(pl.Callback):
    """Registered by the datamodule's ``setup``; see the module's text.

    Args:
        draws: The run's training draws.
        batch_rows: Returns the rows of one global batch for a run with the given number of ranks, or None where
            there are several loaders.
    """

    def __init__(self, draws: TrainingDraws, batch_rows: Callable[[int], int | None]) -> None:
        self._draws = draws
        self._batch_rows = batch_rows

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note that nothing of the epoch is in flight."""
        self._draws.note_trained()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note that the batch was trained."""
        self._draws.note_trained()

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Put the counters of ``checkpoint`` right before Lightning restores them.

        Raises:
            StateMismatchError: Training went on before the checkpoint, but it has no draws state.
        """
        if trainer.state.fn != "fit":
            return
        state = self._find_state(trainer, checkpoint)
        if state is None:
            return
        fit_loop = checkpoint.get("loops", {}).get("fit_loop", {})
        try:
            self._repair(fit_loop, state, trainer.world_size)
        except (KeyError, TypeError) as error:
            warnings.warn(
                f"Lightning {version('lightning')} lays out its loop counters in a way unknown to dsrt_lightning "
                f"({error!r}): the draws resume, but Lightning's epoch and batch counters stay as they are",
                stacklevel=2,
            )
        _drop_loader_states(fit_loop.get("state_dict", {}))

    def _find_state(self, trainer: pl.Trainer, checkpoint: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return our state; hand it to the draws where Lightning's key for the datamodule has another name."""
        key = type(trainer.datamodule).__qualname__  # type: ignore[attr-defined]
        if is_draws_state(checkpoint.get(key)):
            return checkpoint[key]  # type: ignore[no-any-return]
        found = [value for value in checkpoint.values() if is_draws_state(value)]
        if found:
            self._draws.load_state_dict(found[0])
            return found[0]  # type: ignore[no-any-return]
        if checkpoint.get("global_step", 0) > 0:
            raise StateMismatchError(
                f"the checkpoint was saved after {checkpoint['global_step']} steps and holds no {FORMAT!r} state, so "
                "the draws cannot continue; resume with the datamodule that saved it, or load the weights with "
                "load_from_checkpoint and start a new run"
            )
        return None

    def _repair(self, fit_loop: dict[str, Any], state: Mapping[str, Any], world_size: int) -> None:
        if not fit_loop:
            return
        epochs, batches = fit_loop["epoch_progress"], fit_loop["epoch_loop.batch_progress"]
        current = batches["current"]
        if batches["is_last_batch"] and current["processed"] == current["ready"]:
            self._begin_next_epoch(epochs, batches)
        else:
            self._stay_in_epoch(epochs, state)
            self._begin_at_batch(batches, state, world_size)

    def _begin_next_epoch(self, epochs: dict[str, Any], batches: dict[str, Any]) -> None:
        """Every batch of the epoch was trained: let the run continue at the beginning of the next."""
        done = epochs["current"]["processed"]
        if done < epochs["current"]["started"]:
            done += 1
        for key in _COUNTERS:
            epochs["current"][key] = epochs["total"][key] = done
            batches["current"][key] = 0
            batches["total"][key] = batches["total"]["processed"]
        batches["is_last_batch"] = False
        self._draws.go_to_epoch(done)

    def _stay_in_epoch(self, epochs: dict[str, Any], state: Mapping[str, Any]) -> None:
        """A run that ``max_steps`` ended inside an epoch counted it as done: take that back."""
        epoch = next(iter(parts_of(state).values()))["epoch"]
        for counters in (epochs["current"], epochs["total"]):
            counters.update(ready=epoch + 1, started=epoch + 1, processed=epoch, completed=epoch)

    def _begin_at_batch(self, batches: dict[str, Any], state: Mapping[str, Any], world_size: int) -> None:
        """Forget a batch in flight, and count the trained samples in batches of this run's size."""
        current, total = batches["current"], batches["total"]
        if current["ready"] > current["processed"]:
            batches["is_last_batch"] = False
        # A checkpoint from inside the hooks of a batch's end has not completed it, and Lightning acts on that.
        not_completed = current["processed"] - current["completed"]
        trained = current["processed"]
        rows = self._batch_rows(world_size)
        if rows is not None and state.get("pass") == 0 and state.get("samples"):
            trained = state["samples"] // rows
        for counters, count in ((current, trained), (total, total["processed"])):
            for key in _COUNTERS:
                counters[key] = count
            counters["completed"] = count - not_completed


def _drop_loader_states(state_dict: dict[str, Any]) -> None:
    """Remove the states of our loaders that Lightning saved: they count a batch in flight as trained."""
    saved = state_dict.get("combined_loader")
    if isinstance(saved, list) and all(is_draws_state(loader_state) for loader_state in saved):
        del state_dict["combined_loader"]
