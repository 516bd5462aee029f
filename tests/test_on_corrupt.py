"""``on_corrupt``: what a loader does about records that are broken."""

from __future__ import annotations

import logging
import struct
import warnings

import numpy as np
import polars as pl
import pytest
from cache_builders import build, numbers
from damage import break_record, truncate
from resume_law import assert_resumes_exactly, comparable
from resume_scenarios import MODES

from dsrt_lightning import BatchNode, DatasetRTDataModule, RTLoader, open_dataset
from dsrt_lightning.errors import ConfigError, CorruptCacheError, DecodeError

BROKEN = (3, 17, 18)
SHARD_BYTES = 256  # 16 records of `numbers`


@pytest.fixture
def cache(tmp_path):
    """48 records in three shards: record 3 of the first and records 17 and 18 of the second are broken."""
    path = numbers(tmp_path, shard_bytes=SHARD_BYTES)
    for sample_id in BROKEN:
        break_record(path, sample_id)
    return path


@pytest.fixture
def dataset(cache):
    return open_dataset(cache, seed=5, sampling="shuffle")


def data_of(sample):
    return sample.data


DELIVERIES = {
    "native": {},
    "native, one at a time": {"prefetch_batches": 1, "threads": 1},
    "samples in threads": {"transform": data_of},
    "samples without threads": {"transform": data_of, "threads": 0},
    "samples in many threads": {"transform": data_of, "threads": 4},
    "arrays in workers": {"workers": 1},
    "samples in workers": {"workers": 2, "transform": data_of},
}


def skipping(dataset, **options):
    return RTLoader(dataset, **{"batch_size": 6, "on_corrupt": "skip", **options})


def ids_of(loader):
    return [batch["id"].tolist() for batch in loader]


def drawn(dataset, epoch=0):
    stream = dataset.view.stream(global_batch=1)
    return dataset.view.records.rows(stream.positions(epoch, 0, 0, stream.epoch_length)).tolist()


def flat(batches):
    return [i for batch in batches for i in batch]


def stand_ins(dataset):
    """Return which record stands in for each broken one, as a loader shows it."""
    got = flat(ids_of(skipping(dataset)))
    return {was: now for was, now in zip(drawn(dataset), got, strict=True) if was != now}


# raise, the default


@pytest.mark.parametrize("kind", DELIVERIES)
def test_a_broken_record_is_raised_by_name_where_nothing_else_was_asked_for(dataset, kind):
    with pytest.raises(CorruptCacheError, match=r"shards/00000[01]\.bin: record (3|17|18) has checksum"):
        list(RTLoader(dataset, batch_size=6, **DELIVERIES[kind]))


@pytest.mark.parametrize("kind", DELIVERIES)
def test_the_batches_before_a_broken_record_arrive(dataset, kind):
    size = 4
    num_sound = min(drawn(dataset).index(record) for record in BROKEN) // size
    assert num_sound > 0
    batches = iter(RTLoader(dataset, batch_size=size, **DELIVERIES[kind]))
    for number in range(num_sound):
        assert next(batches)["id"].tolist() == drawn(dataset)[number * size : (number + 1) * size]
    with pytest.raises(CorruptCacheError):
        next(batches)


def test_another_word_is_refused_with_the_choices(dataset):
    with pytest.raises(ValueError, match="on_corrupt is 'ignore'; choose raise, skip"):
        RTLoader(dataset, batch_size=6, on_corrupt="ignore")


# skip: what arrives


def test_sound_records_stand_in_for_broken_ones_and_all_others_stay_where_they_were(dataset):
    got, wanted = flat(ids_of(skipping(dataset))), drawn(dataset)
    assert len(got) == len(wanted)
    assert {was for was, now in zip(wanted, got, strict=True) if was != now} == set(BROKEN)
    assert not set(got) & set(BROKEN)


@pytest.mark.parametrize("kind", DELIVERIES)
def test_threads_and_workers_choose_the_same_stand_ins_and_count_them(dataset, kind):
    expected = [comparable(batch) for batch in skipping(dataset)]
    loader = skipping(dataset, **DELIVERIES[kind])
    assert [comparable(batch) for batch in loader] == expected
    assert loader.stats().skipped == len(BROKEN)
    assert len(ids_of(loader)) == 8
    assert loader.stats().skipped == 2 * len(BROKEN)


def test_ids_and_weight_are_those_of_the_stand_in_and_valid_tells(dataset):
    dataset.update_metadata(dataset.get_metadata().with_columns(weight=pl.col("sample_id") + 1.0))
    batches = list(skipping(dataset, fields=["id", "sample_id", "weight", "valid"]))
    ids, sample_ids, weights, valid = (flat(batch[i].tolist() for batch in batches) for i in range(4))
    assert ids == sample_ids
    assert weights == [i + 1.0 for i in ids]
    assert [i in BROKEN for i in drawn(dataset)] == [not is_valid for is_valid in valid]


def test_a_masked_evaluation_counts_each_sound_record_once(dataset):
    loaders = [skipping(dataset, batch_size=5, drop_last=False, rank=rank, world_size=2) for rank in range(2)]
    seen = [batch["id"][batch["valid"]].tolist() for loader in loaders for batch in loader]
    assert sorted(flat(seen)) == [i for i in range(48) if i not in BROKEN]
    assert sum(loader.stats().skipped for loader in loaders) == len(BROKEN)


def test_each_damaged_file_is_warned_of_once_with_a_record_of_it(cache, dataset, caplog):
    loader = skipping(dataset, workers=2, transform=data_of)
    with caplog.at_level(logging.WARNING, "dsrt_lightning"):
        for _ in range(3):
            list(loader)
    shards = sorted(record.getMessage().partition(": record")[0] for record in caplog.records)
    assert shards == [f"{cache}/shards/000000.bin", f"{cache}/shards/000001.bin"]


def test_the_records_of_a_truncated_shard_are_spread_over_what_is_left(tmp_path):
    path = numbers(tmp_path, shard_bytes=SHARD_BYTES)
    truncate(path / "shards/000001.bin", by=1)
    replaced = stand_ins(open_dataset(path, sampling="shuffle"))
    assert set(replaced) == set(range(16, 32))
    assert len(set(replaced.values())) > 8


# skip: what decides


def test_two_ranks_together_get_the_batches_of_one(dataset):
    ranks = [ids_of(skipping(dataset, batch_size=3, rank=rank, world_size=2)) for rank in range(2)]
    assert [flat(parts) for parts in zip(*ranks, strict=True)] == ids_of(skipping(dataset))


@pytest.mark.parametrize("options", [{}, {"transform": data_of}])
def test_a_loader_that_skips_resumes_exactly_from_everywhere(cache, options):
    assert_resumes_exactly(
        lambda: skipping(open_dataset(cache, seed=5, sampling="shuffle"), **options),
        next_epoch=lambda loader, epoch: loader.set_epoch(epoch),
    )


def test_what_stands_in_does_not_depend_on_what_was_read_before(cache):
    expected = [ids for _, ids in zip(range(8), ids_of(skipping(open_dataset(cache, seed=5))), strict=True)]
    for start in range(8):
        loader = skipping(open_dataset(cache, seed=5))
        loader.load_state_dict({**loader.state_dict(), "samples": 6 * start})
        assert ids_of(loader) == expected[start:]


@pytest.mark.parametrize("sampling", MODES, ids=lambda sampling: sampling["mode"])
def test_every_mode_keeps_its_length_and_gets_sound_records(cache, sampling):
    dataset = open_dataset(cache, seed=5, sampling=sampling)
    dataset.update_metadata(dataset.get_metadata().with_columns(weight=pl.col("score")))
    got = flat(ids_of(skipping(dataset)))
    assert len(got) == 48
    assert not set(got) & set(BROKEN)


def test_under_quota_a_record_of_the_same_class_stands_in(cache):
    dataset = open_dataset(cache, sampling={"mode": "quota", "column": "label", "shares": "equal"})
    for workers in (0, 1):
        batches = ids_of(skipping(dataset, workers=workers))
        assert all(sorted(i % 3 for i in batch) == [0, 0, 1, 1, 2, 2] for batch in batches)
        assert not set(flat(batches)) & set(BROKEN)


def test_in_a_mix_a_record_of_the_same_part_stands_in(cache):
    parts = {"low": {"rules": [{"keep": "sample_id < 20"}]}, "high": {"rules": [{"keep": "sample_id >= 20"}]}}
    loader = {"batch_size": 4, "on_corrupt": "skip"}
    data = DatasetRTDataModule({"caches": [str(cache)], "train": {"mix": {"parts": parts}, "loader": loader}})
    data.setup("fit")
    batches = ids_of(data.train_dataloader())
    assert all(sum(i < 20 for i in batch) == 2 for batch in batches)
    assert not set(flat(batches)) & set(BROKEN)


# skip: what is not skipped


def test_without_a_sound_record_the_error_tells_how_many_were_tried(tmp_path):
    path = numbers(tmp_path, count=10)
    for sample_id in range(10):
        break_record(path, sample_id)
    for options in DELIVERIES.values():
        with pytest.raises(
            CorruptCacheError,
            match=r"record \d has checksum .* tried 10 rows .* population of 10, .* \(10 broken records were found",
        ):
            list(skipping(open_dataset(path, sampling="sequential"), batch_size=5, **options))


def test_a_class_without_a_sound_record_is_no_reason_to_take_another(cache):
    dataset = open_dataset(cache, sampling={"mode": "quota", "column": "label", "shares": "equal"})
    frame = dataset.get_metadata().with_columns(label=pl.when(pl.col("sample_id") == 3).then(7).otherwise("label"))
    dataset.update_metadata(frame)
    with pytest.raises(CorruptCacheError, match=r"record 3 has checksum .* tried 1 rows"):
        list(skipping(dataset))


@pytest.mark.parametrize("options", [{}, {"transform": data_of}])
def test_a_missing_shard_is_an_os_error_all_the_same(cache, dataset, options):
    (cache / "shards/000002.bin").unlink()
    with pytest.raises(OSError, match=r"000002\.bin"):
        list(skipping(dataset, **options))


def refuse():
    raise ValueError("not today")


class Refusing:
    def __reduce__(self):
        return refuse, ()


def test_a_record_that_does_not_decode_though_it_is_what_was_written_is_not_skipped(tmp_path):
    path = build(tmp_path, "pickled", [(1, {}), (Refusing(), {})], codec="pickle")
    dataset = open_dataset(path, sampling="sequential", allow_pickle=True)
    with pytest.raises(DecodeError, match=r"record 1: .*not today"):
        list(skipping(dataset, batch_size=2))


def complain(sample):
    raise CorruptCacheError("elsewhere.bin: is not what was written")


def test_corruption_that_lies_in_no_record_of_the_batch_is_raised_as_it_is(dataset):
    with pytest.raises(CorruptCacheError, match=r"^elsewhere\.bin: is not what was written"):
        list(skipping(dataset, transform=complain))


def test_a_record_asked_for_by_its_place_is_raised(dataset):
    skipping(dataset)
    with pytest.raises(CorruptCacheError, match="record 17 has checksum"):
        dataset[17]


def test_with_verify_never_only_what_cannot_be_read_is_skipped(cache):
    content = bytearray((cache / "index.bin").read_bytes())
    struct.pack_into("<I", content, 64 + 24 * 40 + 16, 9)
    (cache / "index.bin").write_bytes(content)
    dataset = open_dataset(cache, sampling="sequential", verify="never")
    loader = skipping(dataset, fields="sample_id")
    got = np.concatenate([batch.numpy() for batch in loader]).tolist()
    assert [was for was, now in zip(range(48), got, strict=True) if was != now] == [40]
    assert loader.stats().skipped == 1


# The other doors


def test_a_node_skips_as_its_loader_does(dataset):
    node = BatchNode(skipping(dataset))
    assert [batch["id"].tolist() for batch in node] == ids_of(skipping(dataset))
    assert node.loader.stats().skipped == len(BROKEN)


def test_a_config_says_it_for_a_split_or_a_set(cache):
    rest = {"rules": [{"keep": "sample_id < 24"}], "sampling": {"mode": "shuffle"}}
    sets = {"strict": {"loader": {"on_corrupt": "raise"}}, "lenient": {}}
    cfg = {"caches": [str(cache)], "train": {**rest, "loader": {"batch_size": 6, "on_corrupt": "skip"}, "sets": sets}}
    data = DatasetRTDataModule(cfg)
    data.setup("fit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's own, of torch
        loaders = data.train_dataloader().iterables
    assert not set(flat(ids_of(loaders["lenient"]))) & set(BROKEN)
    with pytest.raises(CorruptCacheError):
        list(loaders["strict"])
    cfg["train"]["loader"]["on_corrupt"] = "ignore"
    with pytest.raises(ConfigError, match=r"train\.loader\.on_corrupt: input should be 'raise' or 'skip'"):
        DatasetRTDataModule(cfg)
