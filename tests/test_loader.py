"""The loader: what arrives, in which order, and that nothing but the draws decides it."""

from __future__ import annotations

import gc
import weakref
from itertools import chain

import numpy as np
import polars as pl
import pytest
import torch
from cache_builders import build, numbers
from drawn import draw_noise, drawn_ids, flat
from native_threads import in_child, in_many_threads, reader_threads
from resume_law import assert_resumes_exactly
from resume_scenarios import MODES

from dsrt_lightning import RTLoader, open_dataset
from dsrt_lightning.errors import CacheNotFoundError, ConfigError, StateMismatchError


def ids_of(loader):
    return [batch["id"].tolist() for batch in loader]


# What arrives


def test_a_batch_is_a_dict_of_tensors_that_hold_the_drawn_records_in_order(dataset):
    batches = list(RTLoader(dataset, batch_size=8))
    assert [batch["id"].tolist() for batch in batches] == [drawn_ids(dataset)[i : i + 8] for i in range(0, 48, 8)]
    for batch in batches:
        assert list(batch) == ["id", "image"]
        assert batch["image"].shape == (8, 2, 3)
        assert batch["image"].dtype == torch.uint8
        assert (batch["image"] == batch["id"][:, None, None]).all()


def test_a_list_of_fields_gives_a_tuple_in_that_order(dataset):
    image, ids = next(iter(RTLoader(dataset, batch_size=4, fields=["image", "id"])))
    assert image.shape == (4, 2, 3)
    assert ids.shape == (4,)


def test_one_field_name_gives_that_tensor_alone(dataset):
    assert next(iter(RTLoader(dataset, batch_size=4, fields="id"))).shape == (4,)


def test_ids_and_weights_come_on_request(dataset):
    dataset.update_metadata(dataset.get_metadata().with_columns((pl.col("sample_id") + 1.0).alias("weight")))
    ids, cache_id, sample_id, weight = next(
        iter(RTLoader(dataset, batch_size=4, fields=["id", "cache_id", "sample_id", "weight"]))
    )
    assert (sample_id == ids).all()
    assert (weight == ids + 1.0).all()
    assert set(cache_id.tolist()) == {dataset.caches.caches[0].cache_id}


def test_an_unknown_field_is_refused_with_the_choices(dataset):
    with pytest.raises(ConfigError, match=r"'imag' \(did you mean 'image'\?\).*id, image, cache_id"):
        RTLoader(dataset, batch_size=4, fields=["imag"])


def test_a_stored_field_that_is_named_like_an_id_is_refused_where_the_id_is_asked_for(tmp_path):
    path = build(tmp_path, "named", [({"x": i, "valid": i, "sample_id": i}, {}) for i in range(6)])
    dataset = open_dataset(path, sampling="sequential")
    for options in ({"fields": ["x", "sample_id"]}, {"drop_last": False}):
        with pytest.raises(ConfigError, match=r"'(sample_id|valid)' is a field of the samples and also"):
            RTLoader(dataset, batch_size=3, **options)
    assert next(iter(RTLoader(dataset, batch_size=3)))["sample_id"].tolist() == [0, 1, 2]


def test_nested_samples_give_nested_batches(tmp_path):
    path = build(tmp_path, "nested", [({"obs": {"x": np.float32(i)}, "y": i}, {}) for i in range(6)])
    dataset = open_dataset(path, sampling="sequential")
    assert next(iter(RTLoader(dataset, batch_size=3)))["obs"]["x"].tolist() == [0.0, 1.0, 2.0]
    (obs,) = next(iter(RTLoader(dataset, batch_size=3, fields=["obs"])))
    assert obs["x"].tolist() == [0.0, 1.0, 2.0]
    (x,) = next(iter(RTLoader(dataset, batch_size=3, fields=["obs.x"])))
    assert x.tolist() == [0.0, 1.0, 2.0]


def test_ragged_fields_are_padded_with_zeros_and_come_with_their_lengths(tmp_path):
    from dsrt_lightning.store.codecs.arrays_codec import ArraysCodec

    codec = ArraysCodec(ragged={"tokens": (0,)})
    records = [({"tokens": np.arange(1, i + 1, dtype=np.int32)}, {}) for i in range(5)]
    dataset = open_dataset(build(tmp_path, "ragged", records, codec=codec), sampling="sequential")
    batch = next(iter(RTLoader(dataset, batch_size=4)))
    assert batch["tokens_lengths"].tolist() == [0, 1, 2, 3]
    assert batch["tokens"].tolist() == [[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]


def test_pickled_samples_are_collated_like_torch_does(tmp_path):
    records = [({"image": np.full((2, 2), i, np.float32), "name": f"n{i}"}, {}) for i in range(4)]
    path = build(tmp_path, "pickled", records, codec="pickle")
    dataset = open_dataset(path, sampling="sequential", allow_pickle=True)
    batch = next(iter(RTLoader(dataset, batch_size=4)))
    assert batch["image"].shape == (4, 2, 2)
    assert batch["name"] == ["n0", "n1", "n2", "n3"]


def test_memory_of_dropped_batches_is_used_again_in_this_pass_and_the_next(dataset):
    loader = RTLoader(dataset, batch_size=4, fields="image", prefetch_batches=1)
    passes = [{batch.data_ptr() for batch in loader} for _ in range(2)]
    # The one that the consumer still has when it asks, and the one ahead.
    assert len(passes[0] | passes[1]) <= 2


def test_nothing_keeps_a_dropped_batch_while_the_next_one_is_made(dataset):
    images, are_alive = [], []

    def look_back(batch):
        are_alive.append([image() is not None for image in images])
        images.append(weakref.ref(batch["image"]))
        return batch

    batches = iter(RTLoader(dataset, batch_size=4, batch_transform=look_back))
    for _ in range(3):
        next(batches)
    assert are_alive == [[], [False], [False, False]]


def test_a_batch_belongs_to_the_consumer_and_is_not_written_again(dataset):
    batches = list(RTLoader(dataset, batch_size=4, prefetch_batches=2))
    assert flat(batch["id"].tolist() for batch in batches) == drawn_ids(dataset)
    batches[0]["image"] += 1  # and may be written to


# What decides the order


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
@pytest.mark.parametrize("prefetch_batches", [1, 7])
@pytest.mark.parametrize("transform", [None, lambda sample: sample.data])
def test_threads_and_read_ahead_do_not_change_the_batches(dataset, threads, prefetch_batches, transform):
    loader = RTLoader(
        dataset, batch_size=5, threads=threads, prefetch_batches=prefetch_batches, prefetch_bytes=1, transform=transform
    )
    assert flat(ids_of(loader)) == drawn_ids(dataset)[:45]


def test_workers_gather_arrays_like_threads_do(dataset):
    loader = RTLoader(dataset, batch_size=6, workers=1)
    assert ids_of(loader) == ids_of(RTLoader(dataset, batch_size=6))
    next(iter(loader))  # and a pass may be left half-way
    assert len(ids_of(loader)) == 8


@pytest.mark.parametrize("sampling", MODES, ids=lambda sampling: sampling["mode"])
@pytest.mark.parametrize("world_size", [2, 3, 4, 8])
def test_ranks_together_get_the_global_batches_of_one_rank_in_every_mode(numbers_cache, sampling, world_size):
    dataset = open_dataset(numbers_cache, seed=5, sampling=sampling)
    dataset.update_metadata(dataset.get_metadata().with_columns(weight=pl.col("score")))
    alone = ids_of(RTLoader(dataset, batch_size=24))
    ranks = [
        ids_of(RTLoader(dataset, batch_size=24 // world_size, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    assert [flat(parts) for parts in zip(*ranks, strict=True)] == alone


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_evaluation_visits_every_row_once_over_all_ranks_and_masks_the_padding(numbers_cache, world_size):
    dataset = open_dataset(numbers_cache, sampling="sequential")
    dataset.update_metadata(dataset.get_metadata().head(23))
    loaders = [
        RTLoader(dataset, batch_size=4, drop_last=False, rank=rank, world_size=world_size) for rank in range(world_size)
    ]
    assert len({len(loader) for loader in loaders}) == 1
    seen = [batch["id"][batch["valid"]].tolist() for loader in loaders for batch in loader]
    assert sorted(flat(seen)) == list(range(23))


# Epochs and passes


def test_each_iteration_of_an_epoch_is_its_next_pass(dataset):
    loader = RTLoader(dataset, batch_size=8)
    assert flat(ids_of(loader)) == drawn_ids(dataset, 0, 0)
    assert flat(ids_of(loader)) == drawn_ids(dataset, 0, 1)


def test_set_epoch_begins_the_epoch_in_whatever_order_it_is_called(dataset):
    loader = RTLoader(dataset, batch_size=8)
    batches = iter(loader)
    loader.set_epoch(3)
    assert flat(batch["id"].tolist() for batch in batches) == drawn_ids(dataset, 3)


def test_asking_for_iterators_without_reading_changes_nothing(dataset):
    loader = RTLoader(dataset, batch_size=8)
    iter(loader)
    iter(loader)
    assert flat(ids_of(loader)) == drawn_ids(dataset, 0, 0)


def test_an_iterator_is_refused_once_a_newer_one_has_begun(dataset):
    loader = RTLoader(dataset, batch_size=8)
    old = iter(loader)
    next(old)
    next(iter(loader))
    with pytest.raises(RuntimeError, match="make a second loader"):
        next(old)


def test_the_length_is_that_of_a_whole_pass_wherever_the_loader_stands(dataset):
    loader = RTLoader(dataset, batch_size=8)
    next(iter(loader))
    assert len(loader) == 6


def test_a_new_population_counts_from_the_next_iteration_on(dataset):
    loader = RTLoader(dataset, batch_size=8)
    running = iter(loader)
    first = next(running)["id"].tolist()
    dataset.update_metadata(dataset.get_metadata().filter(pl.col("label") == 1))
    assert first + flat(batch["id"].tolist() for batch in running) == drawn_ids_of_all(dataset)
    assert all(i % 3 == 1 for i in flat(ids_of(loader)))


def drawn_ids_of_all(dataset):
    from dsrt_lightning.draws.stream import DrawStream
    from dsrt_lightning.population.population import Population

    stream = DrawStream(Population.all_rows(dataset.caches), dataset.sampling, dataset.seed)
    return stream.positions(0, 0, 0, 48).tolist()


# Threads


def test_native_threads_sleep_from_pass_to_pass_and_end_with_the_loader(dataset):
    gc.collect()
    before = reader_threads()
    loader = RTLoader(dataset, batch_size=8, threads=2)
    first = ids_of(loader)
    threads = reader_threads() - before
    assert len(threads) == 2
    second = ids_of(loader)
    assert reader_threads() - before == threads
    assert second != first
    assert sorted(chain(*second)) == sorted(chain(*first))
    del loader
    assert not reader_threads() - before


def test_an_iteration_that_is_given_up_ends_its_threads(dataset):
    gc.collect()
    before = reader_threads()
    loader = RTLoader(dataset, batch_size=8, threads=2)
    next(iter(loader))
    assert not reader_threads() - before
    assert len(ids_of(loader)) == 6


@in_many_threads
def test_a_child_of_a_fork_reads_on_with_threads_of_its_own(dataset):
    loader = RTLoader(dataset, batch_size=8)
    list(loader)
    twin = RTLoader(dataset, batch_size=8)
    list(twin)
    expected = ids_of(twin)

    def work():
        assert ids_of(loader) == expected

    assert in_child(work) == 0
    assert ids_of(loader) == expected


# State


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("options", [{}, {"transform": draw_noise}])
def test_a_loader_resumes_exactly_from_everywhere(dataset, drop_last, options):
    assert_resumes_exactly(
        lambda: RTLoader(dataset, batch_size=7, drop_last=drop_last, **options),
        next_epoch=lambda loader, epoch: loader.set_epoch(epoch),
    )


def test_the_state_of_another_population_is_refused_with_both_sizes(dataset):
    state = RTLoader(dataset, batch_size=4).state_dict()
    dataset.update_metadata(dataset.get_metadata().head(40))
    with pytest.raises(StateMismatchError, match=r"48 rows.*40 rows"):
        RTLoader(dataset, batch_size=4).load_state_dict(state)


def test_rank_without_world_size_is_refused(dataset):
    with pytest.raises(ConfigError, match="give both or neither"):
        RTLoader(dataset, batch_size=4, rank=1)


def test_arguments_of_another_type_are_refused_by_name(dataset, numbers_cache):
    with pytest.raises(TypeError, match="dataset is a str but must be an RTDataset"):
        RTLoader(numbers_cache, batch_size=4)
    with pytest.raises(TypeError, match="batch_size is '4' but must be an integer"):
        RTLoader(dataset, batch_size="4")
    with pytest.raises(ValueError, match="seed is -1 but must be in"):
        open_dataset(numbers_cache, seed=-1)


@pytest.mark.parametrize("option", ["prefetch_batches", "prefetch_bytes", "batch_size"])
def test_numbers_out_of_range_are_refused(dataset, option):
    with pytest.raises(ValueError, match="is 0 but must be at least 1"):
        RTLoader(dataset, **{"batch_size": 4, option: 0})


@pytest.mark.parametrize("option", ["workers", "threads"])
def test_numbers_below_zero_are_refused(dataset, option):
    with pytest.raises(ValueError, match=f"{option} is -1 but must be at least 0"):
        RTLoader(dataset, **{"batch_size": 4, option: -1})


@pytest.mark.parametrize("transform", [None, draw_noise], ids=["arrays", "samples"])
def test_a_cache_that_is_gone_when_workers_start_is_the_error_of_their_first_batch(tmp_path, transform):
    cache = numbers(tmp_path)
    loader = RTLoader(open_dataset(cache), batch_size=4, workers=1, transform=transform)
    (cache / "manifest.json").unlink()
    with pytest.raises(CacheNotFoundError, match=r"manifest\.json"):
        next(iter(loader))
