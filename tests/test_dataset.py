"""The dataset in code: metadata as a frame, samples by position and by id, iteration over draws."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from cache_builders import build, numbers
from damage import edit_manifest

from dsrt_lightning import open_dataset
from dsrt_lightning.errors import (
    CacheConflictError,
    CacheNotFoundError,
    ConfigError,
    DecodeError,
    EmptyPopulationError,
    MetadataError,
    PickleNotAllowedError,
    WeightError,
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return numbers(tmp_path_factory.mktemp("caches"))


@pytest.fixture
def dataset(cache):
    return open_dataset(cache, seed=5)


@pytest.fixture(scope="module")
def article_cache(tmp_path_factory):
    records = [
        (np.zeros(1).tobytes(), {"label": "cat" if i % 4 else "dog", "split": "train", "quality": (700 + i) / 1000})
        for i in range(300)
    ]
    return build(tmp_path_factory.mktemp("article"), "article", records, codec="bytes")


def test_the_articles_lines_run_unchanged(article_cache):
    dataset = open_dataset(article_cache)

    metadata = dataset.get_metadata()
    metadata.group_by("label").agg(pl.len().alias("samples"))
    selected = dataset.get_metadata().filter((pl.col("split") == "train") & (pl.col("quality") >= 0.8))
    dataset.update_metadata(selected)
    dataset.update_metadata(selected.head(100))
    balanced = selected.with_columns((1.0 / pl.len().over("label")).alias("weight"))
    dataset.update_metadata(balanced)

    assert len(dataset) == 200
    labels = [sample.metadata["label"] for sample in dataset]
    assert 60 < labels.count("dog") < 140  # 50 of 200 rows, balanced to one half


def test_a_fresh_dataset_shows_every_record_once_with_weight_one(dataset, cache):
    frame = dataset.get_metadata()
    assert frame.columns == ["cache_id", "sample_id", "label", "score", "weight"]
    assert frame["sample_id"].to_list() == list(range(48))
    assert frame["weight"].to_list() == [1.0] * 48


def test_a_sample_carries_data_metadata_and_both_ids(dataset):
    sample = dataset[7]
    assert sample.data["id"] == 7
    assert sample.metadata == {"label": 1, "score": 4.0, "weight": 1.0}
    assert sample.sample_id == 7
    assert sample.cache_id == dataset.caches.caches[0].cache_id


def test_positions_count_from_either_end_and_slices_give_lists(dataset):
    assert dataset[-1].sample_id == 47
    assert [sample.sample_id for sample in dataset[3:9:2]] == [3, 5, 7]
    assert [sample.sample_id for sample in dataset.__getitems__([5, 5, -2])] == [5, 5, 46]


@pytest.mark.parametrize("position", [48, -49])
def test_a_position_outside_is_refused_with_both_numbers(dataset, position):
    with pytest.raises(IndexError, match=f"position {position} is outside the population of 48 rows"):
        dataset[position]


def test_a_record_is_found_by_its_ids(dataset):
    cache_id = dataset.caches.caches[0].cache_id
    assert dataset.get_item(cache_id, 9).data["id"] == 9
    with pytest.raises(KeyError, match=r"sample_id 48"):
        dataset.get_item(cache_id, 48)


def test_arrays_of_a_sample_are_views_that_cannot_be_written(dataset):
    with pytest.raises(ValueError, match="read-only"):
        dataset[0].data["image"][0, 0] = 1


def test_iteration_gives_an_epochs_draws_and_then_its_next_pass(dataset):
    stream = dataset.view.stream(global_batch=1)
    for pass_ in range(2):
        expected = stream.positions(0, pass_, 0, 48).tolist()
        assert [sample.sample_id for sample in dataset] == expected
    dataset.set_epoch(2)
    assert [sample.sample_id for sample in dataset] == stream.positions(2, 0, 0, 48).tolist()


def test_an_updated_population_is_what_is_indexed_and_drawn(dataset):
    dataset.update_metadata(dataset.get_metadata().filter(pl.col("label") == 2).reverse())
    assert dataset[0].sample_id == 47
    assert all(sample.data["id"] % 3 == 2 for sample in dataset)


def test_rows_may_repeat_and_new_columns_reach_the_samples(dataset):
    frame = dataset.get_metadata().head(2).with_columns(pl.lit("x").alias("note"))
    dataset.update_metadata(pl.concat([frame, frame]))
    assert [sample.sample_id for sample in dataset[:]] == [0, 1, 0, 1]
    assert dataset[3].metadata["note"] == "x"


def test_a_lazy_frame_and_a_frame_without_weights_are_fine(dataset):
    dataset.update_metadata(dataset.get_metadata().lazy().select("cache_id", "sample_id").head(5))
    assert len(dataset) == 5
    assert dataset[0].metadata["weight"] == 1.0


def test_running_iterators_keep_their_population(dataset):
    running = iter(dataset)
    first = next(running)
    dataset.update_metadata(dataset.get_metadata().head(1))
    assert len([first, *running]) == 48


BAD_FRAMES = {
    "an unknown sample": (lambda f: f.with_columns(pl.col("sample_id") + 1), MetadataError, "48"),
    "an unknown cache": (lambda f: f.with_columns(pl.col("cache_id") + 1), MetadataError, "cache_id"),
    "no id column": (lambda f: f.drop("sample_id"), MetadataError, "sample_id"),
    "a weight that is no number": (lambda f: f.with_columns(weight=float("nan")), WeightError, "nan"),
    "a negative weight": (lambda f: f.with_columns(weight=-1.0), WeightError, "-1"),
    "only weights of zero": (lambda f: f.with_columns(weight=0.0), WeightError, "48 weights are zero"),
    "no rows": (lambda f: f.head(0), EmptyPopulationError, ""),
}


@pytest.mark.parametrize("problem", BAD_FRAMES)
def test_a_frame_with_a_problem_is_refused_whole_and_changes_nothing(dataset, problem):
    spoil, error, text = BAD_FRAMES[problem]
    with pytest.raises(error) as refusal:
        dataset.update_metadata(spoil(dataset.get_metadata()))
    assert text.lower() in str(refusal.value).lower()
    assert len(dataset) == 48
    assert len(dataset.get_metadata()) == 48


def test_several_caches_are_one_population_in_the_order_given(tmp_path):
    paths = [numbers(tmp_path, name, count) for name, count in (("b", 4), ("a", 3))]
    dataset = open_dataset(paths)
    assert [sample.sample_id for sample in dataset[:]] == [0, 1, 2, 3, 0, 1, 2]
    assert dataset[0].cache_id == dataset[3].cache_id != dataset[4].cache_id


def test_a_dataset_can_be_sent_to_another_process(dataset):
    dataset.update_metadata(dataset.get_metadata().filter(pl.col("label") == 1))
    received = pickle.loads(pickle.dumps(dataset))
    assert [sample.sample_id for sample in received[:]] == [sample.sample_id for sample in dataset[:]]


# What cannot be opened


def test_a_missing_cache_is_refused_naming_the_path(tmp_path):
    with pytest.raises(CacheNotFoundError, match="nowhere"):
        open_dataset(tmp_path / "nowhere")


def test_the_same_cache_twice_is_refused(cache):
    with pytest.raises(CacheConflictError, match="numbers"):
        open_dataset([cache, cache])


def test_caches_of_different_schemas_are_refused_naming_both(cache, tmp_path):
    other = build(tmp_path, "other", [({"x": 1.0}, {})])
    with pytest.raises(ConfigError, match=r"numbers.*other"):
        open_dataset([cache, other])


def test_pickles_are_refused_unless_they_are_trusted(tmp_path):
    path = build(tmp_path, "pickles", [([1, 2], {})], codec="pickle")
    with pytest.raises(PickleNotAllowedError, match="allow_pickle"):
        open_dataset(path)
    assert open_dataset(path, allow_pickle=True)[0].data == [1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sampling": "shufle"}, "shufle"),
        ({"seed": -1}, "-1"),
        ({"epoch_length": 0}, "0"),
        ({"verify": "sometimes"}, "sometimes"),
    ],
)
def test_wrong_options_are_refused_with_what_was_given(cache, options, text):
    with pytest.raises((ValueError, ConfigError), match=text):
        list(open_dataset(cache, **options))


def test_a_record_that_does_not_decode_is_named_with_its_cache(tmp_path):
    path = numbers(tmp_path, count=3)
    edit_manifest(path, "codec", "schema", "fields", 1, "shape", to=[2, 4])
    dataset = open_dataset(path, sampling="sequential")
    for number, read in [(2, lambda: dataset[2]), (0, lambda: next(iter(dataset)))]:
        with pytest.raises(
            DecodeError, match=f"^{path}: record {number}: the record has 14 bytes but its fields take 16"
        ):
            read()
