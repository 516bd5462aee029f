"""Shared slots: a batch arrives as it was, is the consumer's own, and its memory is used again when dropped."""

from __future__ import annotations

import gc
import os
from collections import namedtuple

import pytest
import torch

from dsrt_lightning.loading.shared_slots import Filled, SlotReader, SlotWriter

Pair = namedtuple("Pair", "first second")


def fill(writer, batch, pass_=1):
    writer.begin(pass_)
    return writer.send(batch)


def send(writer, reader, batch, pass_=1):
    return reader(fill(writer, batch, pass_))


def numbers(start, count=1000):
    return {"x": torch.arange(start, start + count)}


@pytest.mark.parametrize(
    "batch",
    [
        torch.arange(3),
        {"image": torch.zeros(2, 3, dtype=torch.uint8), "label": torch.tensor(7.5), "names": ["a", "b"]},
        (torch.ones(2, 0), torch.tensor([1 + 2j]), [torch.tensor([True, False])]),
        {"half": torch.tensor([1.5, -2], dtype=torch.bfloat16), "strided": torch.arange(12).reshape(3, 4).T},
        Pair(torch.arange(2), None),
        "no tensor",
    ],
    ids=["tensor", "dict", "tuple", "bfloat16", "namedtuple", "text"],
)
def test_a_batch_arrives_as_it_was_sent(batch):
    arrived = send(SlotWriter(2), SlotReader(), batch)
    assert type(arrived) is type(batch)
    torch.testing.assert_close(
        [value for value in flat(arrived) if isinstance(value, torch.Tensor)],
        [value for value in flat(batch) if isinstance(value, torch.Tensor)],
    )
    assert [v for v in flat(arrived) if not isinstance(v, torch.Tensor)] == [
        v for v in flat(batch) if not isinstance(v, torch.Tensor)
    ]


def flat(batch):
    if isinstance(batch, dict):
        return [leaf for value in batch.values() for leaf in flat(value)]
    if isinstance(batch, (list, tuple)):
        return [leaf for value in batch for leaf in flat(value)]
    return [batch]


def test_a_batch_that_is_held_is_never_overwritten_however_many_follow():
    writer, reader = SlotWriter(2), SlotReader()
    held = [send(writer, reader, numbers(i)) for i in range(5)]
    assert [batch["x"][0].item() for batch in held] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("derive", [lambda x: x[3:5], lambda x: x.numpy(), lambda x: x.view(-1, 10)[1]])
def test_a_view_of_a_tensor_keeps_the_slot(derive):
    writer, reader = SlotWriter(1), SlotReader()
    view = derive(send(writer, reader, numbers(0))["x"])
    before = view.copy() if hasattr(view, "copy") else view.clone()
    send(writer, reader, numbers(500))
    assert (view == before).all()


def test_one_field_keeps_the_slot_of_the_others():
    writer, reader = SlotWriter(1), SlotReader()
    field = send(writer, reader, {"x": torch.arange(5), "y": torch.arange(5, 10)})["y"]
    gc.collect()
    assert not isinstance(fill(writer, numbers(0)), Filled)
    assert field.tolist() == [5, 6, 7, 8, 9]


def test_the_memory_of_a_dropped_batch_is_used_again_and_crosses_once():
    writer, reader = SlotWriter(2), SlotReader()
    addresses = set()
    for i in range(5):
        message = fill(writer, numbers(i))
        assert (message.memory is None) == (i > 0)
        addresses.add(reader(message)["x"].data_ptr())
    assert len(addresses) == 1


def test_fields_do_not_drag_each_other_into_a_saved_file():
    batch = send(SlotWriter(1), SlotReader(), {"x": torch.arange(100_000), "y": torch.arange(3)})
    assert batch["y"].untyped_storage().nbytes() == 24


def test_batches_that_grow_get_larger_slots():
    writer, reader = SlotWriter(1), SlotReader()
    for count in (10, 1000, 100_000):
        message = fill(writer, numbers(0, count))
        assert isinstance(message, Filled)
        assert reader(message)["x"].tolist() == list(range(count))


def test_slots_sent_in_an_abandoned_pass_are_free_in_the_next_and_cross_anew():
    writer, reader = SlotWriter(1), SlotReader()
    assert isinstance(fill(writer, numbers(0)), Filled)  # the consumer never sees it
    assert not isinstance(fill(writer, numbers(1)), Filled)
    message = fill(writer, numbers(2), 2)
    assert message.memory is not None
    assert reader(message)["x"][0].item() == 2


def test_a_slot_held_over_the_next_pass_is_not_free_in_it():
    writer, reader = SlotWriter(1), SlotReader()
    held = send(writer, reader, numbers(0), 1)
    assert not isinstance(fill(writer, numbers(1), 2), Filled)
    assert held["x"][0].item() == 0


def test_a_forked_child_that_drops_its_copy_does_not_free_the_slot():
    writer, reader = SlotWriter(1), SlotReader()
    held = send(writer, reader, numbers(0))
    if (child := os.fork()) == 0:
        del held
        os._exit(0)
    os.waitpid(child, 0)
    assert not isinstance(fill(writer, numbers(1)), Filled)
    assert held["x"][0].item() == 0


def test_what_is_more_than_its_bytes_goes_as_it_is():
    parameter = torch.ones(2, requires_grad=True)
    assert fill(SlotWriter(1), parameter) is parameter
    assert send(SlotWriter(1), SlotReader(), [torch.ones(1), parameter])[1] is parameter


def lent(writer, count, pass_=1):
    """Return int64 0, 1, 2, ... in memory that the writer lends."""
    writer.begin(pass_)
    tensor = torch.from_numpy(writer.lend(8 * count)).view(torch.int64)
    return torch.arange(count, out=tensor)


def test_what_was_gathered_into_lent_memory_is_sent_without_a_copy():
    writer, reader = SlotWriter(1), SlotReader()
    batch = {"x": lent(writer, 1000), "id": torch.arange(3)}
    address = batch["x"].data_ptr()
    message = writer.send(batch)
    assert message.memory.data_ptr() + message.batch["x"].offset == address
    arrived = reader(message)
    assert arrived["x"].tolist() == list(range(1000))
    assert arrived["id"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "derive", [lambda x: x[1::2], lambda x: x.reshape(2, -1).T, lambda x: x[500:], lambda x: x * 2]
)
def test_what_a_batch_makes_of_lent_memory_arrives_as_it_is(derive):
    writer, reader = SlotWriter(1), SlotReader()
    batch = derive(lent(writer, 1000))
    expected = batch.clone()
    assert torch.equal(reader(writer.send(batch)), expected)


def test_memory_lent_for_a_batch_that_failed_is_lent_again():
    writer = SlotWriter(1)
    assert lent(writer, 10).data_ptr() == lent(writer, 10).data_ptr()


def test_where_no_slot_is_free_memory_of_its_own_is_lent():
    writer, reader = SlotWriter(1), SlotReader()
    held = reader(writer.send(lent(writer, 10)))
    batch = lent(writer, 10) + 5
    assert writer.send(batch) is batch
    assert held.tolist() == list(range(10))


def test_tensors_too_large_for_the_room_beside_lent_memory_go_as_they_are():
    writer, reader = SlotWriter(1), SlotReader()
    large = torch.arange(100_000)
    arrived = reader(writer.send([lent(writer, 10), large]))
    assert arrived[0].tolist() == list(range(10))
    assert arrived[1] is large
