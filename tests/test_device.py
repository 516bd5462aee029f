"""Batches on a device: what passes through, what is copied ahead, and what a state counts."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections import namedtuple

import pytest
import torch
from cache_builders import numbers
from fake_cuda import DeviceTensor, FakeCopies, FakeStream, HostTensor, pretend_cuda
from resume_law import assert_resumes_exactly
from torchdata.nodes import Loader, Mapper

from dsrt_lightning import BatchNode, DevicePrefetcher, DevicePrefetchNode, RTLoader, open_dataset
from dsrt_lightning.loading.device import CudaCopies, map_tensors

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
Pair = namedtuple("Pair", "first second")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return open_dataset(numbers(tmp_path_factory.mktemp("caches")), seed=5, sampling="shuffle")


@pytest.fixture
def fake_cuda(monkeypatch):
    pretend_cuda(monkeypatch)


class Counted:
    """Yields the numbers below ``count`` as batches, raises at ``broken``, and counts what was taken."""

    def __init__(self, count, broken=None):
        self.taken = 0
        self._count, self._broken = count, broken

    def __iter__(self):
        for number in range(self._count):
            if number == self._broken:
                raise OSError("the disk is gone")
            self.taken += 1
            yield {"id": number}


# On the CPU


def test_batches_pass_through_the_cpu_unchanged_and_none_is_taken_ahead():
    source, batches = Counted(3), [{"id": torch.arange(2)}]
    first = next(iter(DevicePrefetcher(source, "cpu")))
    assert (first, source.taken) == ({"id": 0}, 1)
    assert next(iter(DevicePrefetcher(batches, "cpu"))) is batches[0]


def test_a_device_that_is_neither_cpu_nor_cuda_is_refused():
    with pytest.raises(ValueError, match=r"device is 'meta' but batches are delivered on 'cpu' or 'cuda'"):
        DevicePrefetcher([], "meta")


def test_cuda_without_cuda_is_refused_at_once(dataset, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for make in (
        lambda: DevicePrefetcher([], "cuda"),
        lambda: RTLoader(dataset, batch_size=7, device="cuda:1"),
        lambda: DevicePrefetchNode(BatchNode(RTLoader(dataset, batch_size=7)), "cuda"),
    ):
        with pytest.raises(RuntimeError, match=r"torch\.cuda\.is_available\(\) is False"):
            make()


def test_tensors_are_replaced_in_dicts_lists_and_tuples_and_nothing_else_is():
    batch = {"a": [torch.ones(1), "text"], "b": Pair(torch.ones(2), None), "c": (b"bytes", {"d": torch.ones(3)})}
    doubled = map_tensors(batch, lambda tensor: tensor * 2)
    assert doubled == {
        "a": [torch.tensor([2.0]), "text"],
        "b": Pair(doubled["b"].first, None),
        "c": (b"bytes", {"d": doubled["c"][1]["d"]}),
    }
    assert isinstance(doubled["b"], Pair)
    assert (doubled["b"].first.tolist(), doubled["c"][1]["d"].tolist()) == ([2.0] * 2, [2.0] * 3)


# One ahead


def test_the_copy_of_the_next_batch_begins_before_a_batch_is_delivered(fake_cuda):
    batches = iter(DevicePrefetcher(Counted(3), "cuda"))
    logs = []
    for _ in range(3):
        next(batches)
        logs.append(list(FakeCopies.last.log))
    assert logs[0] == [("start", 0), ("start", 1), ("finish", 0)]
    assert logs[1] == [*logs[0], ("start", 2), ("finish", 1)]
    assert list(batches) == []
    assert FakeCopies.last.log[-1] == "close"


def test_nothing_is_taken_before_the_first_next(fake_cuda):
    source = Counted(3)
    batches = iter(DevicePrefetcher(source, "cuda"))
    assert source.taken == 0
    next(batches)
    assert source.taken == 2


def test_in_flight_counts_what_was_taken_and_not_delivered(fake_cuda):
    prefetcher = DevicePrefetcher(Counted(3), "cuda")
    assert prefetcher.in_flight == 0
    assert [prefetcher.in_flight for _ in prefetcher] == [1, 1, 0]
    next(iter(prefetcher))
    next(iter(prefetcher))
    assert prefetcher.in_flight == 1


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_an_error_comes_where_its_batch_would_have_come(fake_cuda, broken):
    delivered = []
    with pytest.raises(OSError, match="the disk is gone"):
        delivered.extend(batch["id"] for batch in DevicePrefetcher(Counted(3, broken), "cuda"))
    assert delivered == list(range(broken))


def test_an_iteration_that_is_given_up_waits_for_its_copies(fake_cuda):
    batches = iter(DevicePrefetcher(Counted(3), "cuda"))
    next(batches)
    batches.close()
    assert FakeCopies.last.log[-1] == "close"


# State


def test_a_loader_with_a_device_resumes_exactly_from_everywhere(fake_cuda, dataset):
    assert_resumes_exactly(
        lambda: RTLoader(dataset, batch_size=7, device="cuda"), next_epoch=lambda loader, epoch: loader.set_epoch(epoch)
    )


def test_a_loader_with_a_device_has_the_state_of_one_without(fake_cuda, dataset):
    plain, ahead = (RTLoader(dataset, batch_size=7, device=device) for device in (None, "cuda"))
    for here, there in zip(plain, ahead, strict=True):
        assert here["id"].tolist() == there["id"].tolist()
        assert plain.state_dict() == ahead.state_dict()


def test_around_a_loader_the_state_leaves_out_what_is_in_flight(fake_cuda, dataset):
    loader, plain = (RTLoader(dataset, batch_size=7) for _ in range(2))
    prefetcher = DevicePrefetcher(loader, "cuda")
    for _ in zip(plain, prefetcher, strict=True):
        assert loader.state_dict(in_flight=prefetcher.in_flight) == plain.state_dict()


class Pipeline:
    """A node on its way to a device, behind the interface of a loader."""

    def __init__(self, dataset, wrap, device):
        self._node = BatchNode(RTLoader(dataset, batch_size=7))
        self._loader = Loader(DevicePrefetchNode(wrap(self._node), device))

    def __iter__(self):
        return iter(self._loader)

    def set_epoch(self, epoch):
        self._node.set_epoch(epoch)

    def state_dict(self):
        return self._loader.state_dict()

    def load_state_dict(self, state):
        self._loader.load_state_dict(state)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("wrap", [lambda node: node, lambda node: Mapper(node, lambda batch: batch["id"])])
def test_a_node_that_copies_ahead_resumes_exactly_from_everywhere(fake_cuda, dataset, device, wrap):
    assert_resumes_exactly(lambda: Pipeline(dataset, wrap, device), next_epoch=Pipeline.set_epoch)


def test_the_state_of_the_node_is_its_sources_without_the_batch_ahead(fake_cuda, dataset):
    node = DevicePrefetchNode(BatchNode(RTLoader(dataset, batch_size=7)), "cuda")
    next(node)
    assert (node.state_dict()["samples"], node.source.state_dict()["samples"]) == (7, 14)


# Streams, on doubles


@pytest.fixture
def streams(monkeypatch):
    """Side stream and consumer's stream."""
    side, consumer = (FakeStream(torch.device("cuda", 0)) for _ in range(2))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: side)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: consumer)
    return side, consumer


def host_tensor(stream):
    tensor = torch.zeros(3).as_subclass(HostTensor)
    tensor.stream, tensor.calls = stream, []
    return tensor


def test_a_batch_is_pinned_copied_without_blocking_waited_for_and_kept_from_reuse(streams):
    side, consumer = streams
    tensor = host_tensor(side)
    copies = CudaCopies(torch.device("cuda"))
    started = copies.start({"x": (tensor, "text")})
    device = torch.device("cuda", 0)
    # The event is recorded behind the copy, and nobody waits for it yet.
    assert tensor.calls == ["pin", ("to", device, {"non_blocking": True}, 0)]
    assert (len(side.events), consumer.waited_for) == (1, [])
    batch = copies.finish(started)
    assert consumer.waited_for == side.events
    assert tensor.calls[2:] == [("record_stream", consumer, 1)]
    assert type(batch["x"][0]) is DeviceTensor
    assert batch["x"][1] == "text"


def test_a_tensor_that_is_on_a_device_already_is_not_copied(streams):
    side, _ = streams
    tensor = host_tensor(side)
    tensor.__class__ = DeviceTensor
    copies = CudaCopies(torch.device("cuda"))
    assert copies.finish(copies.start(tensor)) is tensor
    assert [call[0] for call in tensor.calls] == ["record_stream"]


def test_a_pinned_source_is_kept_until_its_copy_is_done(streams):
    side, _ = streams
    copies = CudaCopies(torch.device("cuda"))
    first = host_tensor(side)
    first.is_pinned = lambda: True
    source = weakref.ref(first)
    copies.finish(copies.start(first))
    del first
    gc.collect()
    copies.start(host_tensor(side))
    assert source() is not None
    side.events[0].is_done = True
    copies.start(host_tensor(side))
    gc.collect()
    assert source() is None


def test_closing_waits_for_every_copy_that_may_still_read_its_source(streams):
    side, _ = streams
    copies = CudaCopies(torch.device("cuda"))
    for _ in range(2):
        copies.start(host_tensor(side))
    copies.close()
    assert [event.num_waits for event in side.events] == [1, 1]


# With a GPU


@on_cuda
def test_batches_arrive_on_the_gpu_with_the_right_values_also_when_each_is_dropped_at_once(dataset):
    plain = RTLoader(dataset, batch_size=7)
    ahead = RTLoader(dataset, batch_size=7, device="cuda")
    for _ in range(20):
        for here, there in zip(plain, ahead, strict=True):
            assert there["image"].is_cuda
            assert torch.equal(there["image"].cpu(), here["image"])
            assert torch.equal(there["id"].cpu(), here["id"])
            del here, there


@on_cuda
def test_values_are_right_on_another_stream_of_the_consumer():
    batches = [torch.full((1 << 20,), float(number)) for number in range(30)]
    with torch.cuda.stream(torch.cuda.Stream()):
        sums = [batch.sum() for batch in DevicePrefetcher(batches, "cuda")]
        assert [float(total) for total in sums] == [float(number << 20) for number in range(30)]


@on_cuda
def test_a_pinned_batch_is_copied_from_where_it_is():
    pinned = torch.arange(10).pin_memory()
    copies = CudaCopies(torch.device("cuda"))
    copies.start(pinned)
    assert copies._sources[0][1] is pinned
