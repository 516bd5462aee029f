"""Transforms of samples and batches: what they get, where they run, what their errors say."""

from __future__ import annotations

import sys
import threading
import traceback
from functools import partial

import pytest
from drawn import draw_noise, drawn_ids, flat

from dsrt_lightning import RTLoader, open_dataset


def test_a_transform_gets_the_sample_with_data_metadata_and_ids(dataset):
    def transform(sample):
        assert sample.sample_id == int(sample.data["id"])
        return {"double": int(sample.data["id"]) * 2, "label": sample.metadata["label"]}

    batch = next(iter(RTLoader(dataset, batch_size=6, transform=transform)))
    expected = drawn_ids(dataset)[:6]
    assert batch["double"].tolist() == [2 * i for i in expected]
    assert batch["label"].tolist() == [i % 3 for i in expected]


@pytest.mark.parametrize(("threads", "is_own"), [(0, True), (1, False)])
def test_without_threads_transforms_run_in_the_thread_that_asks(dataset, threads, is_own):
    ran_in = set()
    loader = RTLoader(
        dataset,
        batch_size=8,
        threads=threads,
        transform=lambda sample: ran_in.add(threading.get_ident()) or sample.data["id"],
    )
    assert flat(batch.tolist() for batch in loader) == drawn_ids(dataset)
    assert (ran_in == {threading.get_ident()}) == is_own


def test_a_batch_transform_gets_the_batch(dataset):
    loader = RTLoader(dataset, batch_size=4, fields=["id"], batch_transform=lambda batch: batch[0].sum())
    assert next(iter(loader)).item() == sum(drawn_ids(dataset)[:4])


def test_the_error_of_a_transform_arrives_at_its_own_batch(dataset):
    failing = drawn_ids(dataset)[9]

    def transform(sample):
        if sample.sample_id == failing:
            raise RuntimeError(f"sample {failing}")
        return sample.sample_id

    batches = iter(RTLoader(dataset, batch_size=4, transform=transform))
    assert next(batches).tolist() == drawn_ids(dataset)[:4]
    assert next(batches).tolist() == drawn_ids(dataset)[4:8]
    with pytest.raises(RuntimeError, match=f"sample {failing}"):
        next(batches)


def fail_on(error, sample):
    raise error


def stop(batch):
    raise StopIteration


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stop_iteration_in_a_transform_is_an_error_and_not_the_end_of_the_pass(numbers_cache, workers):
    dataset = open_dataset(numbers_cache, sampling="sequential")
    options = {"batch_size": 4, "workers": workers}
    with pytest.raises(RuntimeError, match=f"{numbers_cache}: record 0: partial raised StopIteration"):
        next(iter(RTLoader(dataset, transform=partial(fail_on, StopIteration()), **options)))
    with pytest.raises(RuntimeError, match="a batch of epoch 0, from position 0: stop raised StopIteration"):
        next(iter(RTLoader(dataset, batch_transform=stop, **options)))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
@pytest.mark.parametrize("workers", [0, 1])
def test_the_error_of_a_transform_names_the_record_and_keeps_its_type(numbers_cache, workers):
    dataset = open_dataset(numbers_cache, sampling="sequential")
    loader = RTLoader(dataset, batch_size=4, workers=workers, transform=partial(fail_on, KeyError("width")))
    with pytest.raises(KeyError, match="width") as caught:
        next(iter(loader))
    assert f"{numbers_cache}: record 0: raised in partial" in "".join(traceback.format_exception(caught.value))


def test_workers_change_neither_batches_nor_the_noise_of_transforms(dataset):
    def run(workers):
        loader = RTLoader(dataset, batch_size=6, workers=workers, transform=draw_noise)
        return [(batch["id"].tolist(), batch["noise"].tolist()) for _ in range(2) for batch in loader]

    assert run(2) == run(0)


def add_noise(batch, rng):
    return {**batch, "noise": rng.random()}


def test_a_batch_transform_draws_noise_of_its_own_for_each_batch_wherever_it_runs(dataset):
    def run(workers):
        loader = RTLoader(dataset, batch_size=6, workers=workers, batch_transform=add_noise)
        return [batch["noise"] for _ in range(2) for batch in loader]

    assert run(1) == run(0)
    assert len(set(run(0))) == 16


def test_noise_differs_between_samples_and_epochs(dataset):
    loader = RTLoader(dataset, batch_size=48, transform=draw_noise)
    first = next(iter(loader))["noise"].tolist()
    loader.set_epoch(1)
    second = next(iter(loader))["noise"].tolist()
    assert len({*first, *second}) == 96
