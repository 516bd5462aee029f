"""The torchdata node: the loader's stream inside a pipeline, saved and restored with it."""

from __future__ import annotations

import pytest
from cache_builders import numbers
from resume_law import assert_resumes_exactly
from torchdata.nodes import Loader, Mapper, Prefetcher

from dsrt_lightning import BatchNode, RTLoader, open_dataset
from dsrt_lightning.errors import StateMismatchError


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return open_dataset(numbers(tmp_path_factory.mktemp("caches")), seed=5, sampling="shuffle")


class Pipeline:
    """A torchdata pipeline behind the interface of a loader."""

    def __init__(self, dataset, wrap=lambda node: node):
        self._node = BatchNode(RTLoader(dataset, batch_size=7))
        self._loader = Loader(wrap(self._node))

    def __iter__(self):
        return iter(self._loader)

    def set_epoch(self, epoch):
        self._node.set_epoch(epoch)

    def state_dict(self):
        return self._loader.state_dict()

    def load_state_dict(self, state):
        self._loader.load_state_dict(state)


def id_of(batch):
    return batch["id"]


PIPELINES = {
    "alone": lambda node: node,
    "with a mapper": lambda node: Mapper(node, id_of),
    "with a prefetcher": lambda node: Prefetcher(Mapper(node, id_of), prefetch_factor=2),
}


@pytest.mark.parametrize("kind", PIPELINES)
def test_a_pipeline_resumes_exactly_from_everywhere(dataset, kind):
    assert_resumes_exactly(lambda: Pipeline(dataset, PIPELINES[kind]), next_epoch=Pipeline.set_epoch)


def test_a_node_gives_the_batches_of_the_loader(dataset):
    expected = [batch["id"].tolist() for batch in RTLoader(dataset, batch_size=7)]
    assert [batch["id"].tolist() for batch in Pipeline(dataset)] == expected


def test_the_state_of_a_node_is_the_state_of_the_loader(dataset):
    node, loader = BatchNode(RTLoader(dataset, batch_size=7)), RTLoader(dataset, batch_size=7)
    next(node)
    next(iter(loader))
    assert node.state_dict() == loader.state_dict()


def test_a_node_refuses_the_state_of_another_population(dataset, tmp_path):
    other = open_dataset(numbers(tmp_path, "other", 10), seed=5, sampling="shuffle")
    state = BatchNode(RTLoader(other, batch_size=7)).state_dict()
    with pytest.raises(StateMismatchError, match=r"10 rows.*48 rows"):
        BatchNode(RTLoader(dataset, batch_size=7)).reset(state)
