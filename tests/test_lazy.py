from __future__ import annotations

import os
import threading

import pytest

from dsrt_lightning.store.lazy import lazy_property


class Counting:
    def __init__(self) -> None:
        self.computed = 0
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    @lazy_property
    def value(self) -> int:
        """What it is."""
        self.computed += 1
        self.begun.set()
        self.go_on.wait()
        return self.computed


def test_value_is_computed_at_the_first_use_and_kept() -> None:
    counting = Counting()
    assert counting.computed == 0
    assert (counting.value, counting.value) == (1, 1)
    assert Counting.value.__doc__ == "What it is."


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 advises what is tested here.
def test_process_forked_while_a_thread_computes_computes_for_itself() -> None:
    counting = Counting()
    counting.go_on.clear()
    thread = threading.Thread(target=lambda: counting.value)
    thread.start()
    counting.begun.wait()
    child = os.fork()
    if child == 0:
        counting.go_on = threading.Event()
        counting.go_on.set()
        os._exit(counting.value)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    counting.go_on.set()
    thread.join()
