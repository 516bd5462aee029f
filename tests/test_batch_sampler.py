"""The batch sampler: the same stream under DataLoader and StatefulDataLoader."""

from __future__ import annotations

import pytest
import torch
from cache_builders import numbers
from resume_law import assert_resumes_exactly
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from dsrt_lightning import RTBatchSampler, RTLoader, open_dataset
from dsrt_lightning.errors import ConfigError


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return open_dataset(numbers(tmp_path_factory.mktemp("caches")), seed=5, sampling="shuffle")


def ids(samples):
    return torch.tensor([int(sample.data["id"]) for sample in samples])


class Stateful:
    """A StatefulDataLoader over the sampler, with its epoch."""

    def __init__(self, dataset, workers):
        self._sampler = RTBatchSampler(dataset, batch_size=7)
        options = {"multiprocessing_context": "forkserver"} if workers else {}
        self._loader = StatefulDataLoader(
            dataset, batch_sampler=self._sampler, num_workers=workers, collate_fn=ids, **options
        )

    def __iter__(self):
        return iter(self._loader)

    def set_epoch(self, epoch):
        self._sampler.set_epoch(epoch)

    def state_dict(self):
        return self._loader.state_dict()

    def load_state_dict(self, state):
        self._loader.load_state_dict(state)


def test_a_stateful_loader_resumes_exactly_from_everywhere(dataset):
    assert_resumes_exactly(lambda: Stateful(dataset, workers=0), next_epoch=Stateful.set_epoch)


def test_a_stateful_loader_with_two_workers_resumes_exactly(dataset):
    assert_resumes_exactly(lambda: Stateful(dataset, workers=2), next_epoch=Stateful.set_epoch, stops=(3,))


def test_a_plain_dataloader_gives_the_batches_of_our_loader(dataset):
    loader = DataLoader(dataset, batch_sampler=RTBatchSampler(dataset, batch_size=7), collate_fn=ids)
    expected = [batch["id"].tolist() for batch in RTLoader(dataset, batch_size=7)]
    assert [batch.tolist() for batch in loader] == expected


def test_the_state_is_that_of_a_loader_and_they_continue_each_other(dataset):
    sampler = RTBatchSampler(dataset, batch_size=7)
    batches = iter(sampler)
    begun = [next(batches), next(batches)]
    loader = RTLoader(dataset, batch_size=7)
    loader.load_state_dict(sampler.state_dict())
    rest = [batch["id"].tolist() for batch in loader]
    assert begun + rest == list(RTBatchSampler(dataset, batch_size=7))


def test_ranks_together_get_the_global_batches(dataset):
    ranks = [list(RTBatchSampler(dataset, batch_size=4, rank=rank, world_size=2)) for rank in range(2)]
    assert [a + b for a, b in zip(*ranks, strict=True)] == list(RTBatchSampler(dataset, batch_size=8))


def test_a_sampler_that_lightning_injected_is_refused_with_the_way_out(dataset):
    foreign = DistributedSampler(dataset, num_replicas=2, rank=0)
    with pytest.raises(ConfigError, match=r"got a DistributedSampler.*use_distributed_sampler=False"):
        RTBatchSampler(foreign, batch_size=4)


@pytest.mark.parametrize("kind", ["loader", "sampler"])
def test_reading_as_one_rank_of_one_inside_a_larger_process_group_is_refused(dataset, kind, monkeypatch):
    made = RTLoader(dataset, batch_size=4) if kind == "loader" else RTBatchSampler(dataset, batch_size=4)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(ConfigError, match="rank 0 of 1 but the process is rank 1 of 2"):
        next(iter(made))


def test_padding_over_ranks_is_refused_since_positions_cannot_mark_it(dataset):
    with pytest.raises(ConfigError, match="2 ranks"):
        RTBatchSampler(dataset, batch_size=4, drop_last=False, rank=0, world_size=2)
