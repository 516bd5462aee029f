"""A snapshot is what the rules select, complete or absent, and found again without evaluating them."""

from __future__ import annotations

import errno
import gc
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from damage import flip_byte, truncate
from tiny_caches import make_cache, make_caches

from dsrt_lightning.errors import CorruptCacheError, EmptyPopulationError, MetadataError, RuleError, WeightError
from dsrt_lightning.population import snapshot
from dsrt_lightning.population.population import Population
from dsrt_lightning.population.rules import parse_rules
from dsrt_lightning.population.scratch import ScratchFolder
from dsrt_lightning.population.snapshot import evaluate, prepare
from dsrt_lightning.population.snapshot_files import SnapshotFiles, snapshot_place
from dsrt_lightning.store.cache_set import CacheSet

RULES: list[dict[str, Any]] = [
    {"with": {"double": "size * 2"}},
    {"keep": "size > 0"},
    {"weight": {"by": {"label": {"a": 2}}}},
]


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> CacheSet:
    root = tmp_path_factory.mktemp("caches")
    return make_caches(root, a={"label": ["a", "b", "a"], "size": [0, 1, 2]}, b={"label": ["c", "b"], "size": [3, 4]})


@pytest.fixture
def never_evaluated(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes any further evaluation of rules an error."""

    def forbid(*_: object, **__: object) -> None:
        raise AssertionError("rules were evaluated again")

    return lambda: monkeypatch.setattr(snapshot, "evaluate", forbid)


def prepared(caches: CacheSet, place: Path, rules: Any = RULES, **options: Any) -> Population:
    return prepare(caches, rules, where="x.yaml: rules", directory=place, **options)


def test_a_place_that_cannot_be_written_is_named_with_the_variable_that_moves_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"let DSRT_CACHE_DIR name another folder") as caught:
        prepare(make_caches(tmp_path, a={"x": [1]}), [], where="x.yaml: rules", directory=tmp_path / "file")
    assert caught.value.filename == str(tmp_path / "file")


def folders(place: Path) -> list[Path]:
    return [path for path in place.iterdir() if path.name != "scratch"]


def is_same(one: Population, other: Population) -> bool:
    arrays = np.array_equal(one.rows, other.rows) and np.array_equal(one.weights, other.weights)
    return arrays and one.digest == other.digest and one.frame().equals(other.frame())


# --- what it holds ---


def test_snapshot_is_what_the_rules_select_in_memory(caches: CacheSet, tmp_path: Path) -> None:
    mapped = prepared(caches, tmp_path, group_columns=["label"])
    in_memory = evaluate(caches, parse_rules(RULES, where="rules"), where="rules", group_columns=["label"])
    assert is_same(mapped, in_memory)
    assert mapped.frame()["size"].to_list() == [1, 2, 3, 4]
    assert mapped.weights.tolist() == [1, 2, 1, 1]
    for codes, values in (mapped.group_codes("label"), in_memory.group_codes("label")):
        assert (codes.tolist(), values) == ([1, 0, 2, 1], ["a", "b", "c"])


def test_rows_have_stored_columns_and_those_that_rules_added(caches: CacheSet, tmp_path: Path) -> None:
    assert prepared(caches, tmp_path).metadata(1) == {"label": "a", "size": 2, "double": 4, "weight": 2.0}


def test_column_that_nobody_prepared_has_group_codes_too(caches: CacheSet, tmp_path: Path) -> None:
    codes, values = prepared(caches, tmp_path).group_codes("double")
    assert [values[code] for code in codes] == [2, 4, 6, 8]


def test_arrays_are_mapped_read_only(caches: CacheSet, tmp_path: Path) -> None:
    population = prepared(caches, tmp_path, group_columns=["label"])
    for array in (population.rows, population.weights, population.group_codes("label")[0]):
        assert not array.flags.writeable
        assert type(array) is np.ndarray
        assert isinstance(array.base, np.memmap)


def test_equal_weights_are_not_written(caches: CacheSet, tmp_path: Path) -> None:
    population = prepared(caches, tmp_path, [{"weight": {"expr": "0.5"}}])
    assert population.uniform
    assert population.weights.tolist() == [0.5] * 5
    assert sorted(path.name for path in folders(tmp_path)[0].iterdir()) == ["rows.npy", "snapshot.json"]


def test_rows_of_weight_zero_are_left_out_of_all_files(caches: CacheSet, tmp_path: Path) -> None:
    rules = [{"with": {"double": "size * 2"}}, {"weight": {"expr": "case when label = 'b' then 0 else size + 1 end"}}]
    population = prepared(caches, tmp_path, rules, group_columns=["label"])
    assert population.frame()["double"].to_list() == [0, 4, 6]
    assert population.group_codes("label")[1] == ["a", "c"]


def test_default_place_is_under_the_cache_directory(caches: CacheSet) -> None:
    population = prepare(caches, RULES, where="rules")
    assert snapshot_place() == Path(os.environ["DSRT_CACHE_DIR"]) / "populations"
    assert population.rows.base.filename.parent.parent == snapshot_place()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DSRT_CACHE_DIR": "/x"}, "/x/populations"),
        ({"DSRT_CACHE_DIR": "", "XDG_CACHE_HOME": "/y"}, "/y/dsrt_lightning/populations"),
        ({"DSRT_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/z"}, "/z/.cache/dsrt_lightning/populations"),
    ],
)
def test_place_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert snapshot_place() == Path(expected)


# --- finding it again ---


def test_second_time_nothing_is_evaluated(
    caches: CacheSet, tmp_path: Path, never_evaluated: Callable[[], None]
) -> None:
    first = prepared(caches, tmp_path)
    never_evaluated()
    assert is_same(prepared(caches, tmp_path), first)
    assert is_same(prepared(caches, tmp_path, parse_rules(RULES, where="elsewhere")), first)


def test_other_rules_caches_order_or_groups_are_another_snapshot(caches: CacheSet, tmp_path: Path) -> None:
    prepared(caches, tmp_path)
    prepared(caches, tmp_path, RULES[:-1])
    prepared(caches, tmp_path, RULES, group_columns=["label"])
    prepared(CacheSet(caches.listed[::-1]), tmp_path)
    prepared(CacheSet([*caches.listed, make_cache(tmp_path / "elsewhere" / "c", {"size": [5]})]), tmp_path / "other")
    assert len(folders(tmp_path)) == 4 + len(["elsewhere", "other"])


def test_changed_content_of_a_joined_file_is_another_snapshot(
    caches: CacheSet, tmp_path: Path, never_evaluated: Callable[[], None]
) -> None:
    file = tmp_path / "ages.csv"
    rules = [{"join": {"file": str(file), "by": "label", "how": "inner"}}]
    for age in (30, 31):
        file.write_text(f"label,age\na,{age}\n")
        assert prepared(caches, tmp_path / "place", rules).metadata(0)["age"] == age
    never_evaluated()
    assert prepared(caches, tmp_path / "place", rules).metadata(0)["age"] == 31


# --- refusals: nothing is published ---


def test_wrong_form_and_wrong_columns_are_reported_together(caches: CacheSet, tmp_path: Path) -> None:
    with pytest.raises(RuleError) as caught:
        prepared(caches, tmp_path, [{"keep": "sise > 1"}, {"head": 0}])
    assert [line.partition(":")[2].partition(":")[0] for line in str(caught.value).splitlines()] == [
        " rules[0].keep",
        " rules[1].head",
    ]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ([{"keep": "size > 9"}], EmptyPopulationError, r"^x.yaml: rules\[0\].keep: none of 5 rows is left"),
        ([{"weight": {"expr": "0"}}], WeightError, r"^x.yaml: rules: all 5 weights are zero"),
        ([{"weight": {"expr": "1 - size"}}], WeightError, r"^x.yaml: rules: 3 of 5 weights are not finite and >= 0"),
        ([{"with": {"n": "cast(label as int)"}}], RuleError, r"^x.yaml: rules\[0\].with: conversion from `str`"),
    ],
)
def test_refused_population_publishes_nothing(
    caches: CacheSet, tmp_path: Path, rules: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        prepared(caches, tmp_path, rules)
    assert folders(tmp_path) == []
    assert list((tmp_path / "scratch").iterdir()) == []


def test_unknown_group_column_is_refused(caches: CacheSet, tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match=r"groups: column 'lable' is not in the metadata, did you mean 'label'"):
        prepared(caches, tmp_path, group_columns=["lable"])


def test_full_disk_publishes_nothing(caches: CacheSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "weights.npy")

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full)
        with pytest.raises(OSError, match="No space left"):
            prepared(caches, tmp_path)
    assert folders(tmp_path) == []
    assert list((tmp_path / "scratch").iterdir()) == []
    assert len(prepared(caches, tmp_path)) == 4


# --- damage ---


DAMAGE: dict[str, Callable[[Path], None]] = {
    "flipped byte": lambda path: flip_byte(path, -1),
    "truncated": lambda path: truncate(path, by=1),
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("file", ["rows.npy", "weights.npy", "columns.arrow", "group-0.npy", "snapshot.json"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_snapshot_is_made_again(caches: CacheSet, tmp_path: Path, file: str, damage: str) -> None:
    intact = prepared(caches, tmp_path, group_columns=["label"])
    digest, rows = intact.digest, intact.frame().to_dicts()
    DAMAGE[damage](folders(tmp_path)[0] / file)
    again = prepared(caches, tmp_path, group_columns=["label"])
    assert again.digest == digest
    assert again.frame().to_dicts() == rows
    assert again.group_codes("label")[1] == ["a", "b", "c"]


def test_other_format_version_is_made_again(caches: CacheSet, tmp_path: Path) -> None:
    prepared(caches, tmp_path)
    path = folders(tmp_path)[0] / "snapshot.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(CorruptCacheError, match=r"not a snapshot .*version 2"):
        SnapshotFiles(folders(tmp_path)[0], tmp_path, verify=False)
    assert len(prepared(caches, tmp_path)) == 4
    assert json.loads(path.read_text())["version"] == 1


def test_every_byte_of_the_json_counts(caches: CacheSet, tmp_path: Path) -> None:
    prepared(caches, tmp_path)
    path = folders(tmp_path)[0] / "snapshot.json"
    content = path.read_bytes()
    for offset, byte in enumerate(content):
        path.write_bytes(content[:offset] + bytes([byte ^ 1]) + content[offset + 1 :])
        with pytest.raises(CorruptCacheError, match=r"snapshot\.json: not a snapshot"):
            SnapshotFiles(path.parent, tmp_path, verify=False)


def test_population_that_has_the_damaged_files_mapped_keeps_its_rows(caches: CacheSet, tmp_path: Path) -> None:
    first = prepared(caches, tmp_path)
    rows = first.rows.tolist()
    (folders(tmp_path)[0] / "snapshot.json").unlink()
    prepared(caches, tmp_path)
    assert first.rows.tolist() == rows


# --- tables ---


def test_table_is_made_once_and_mapped_by_the_next(caches: CacheSet, tmp_path: Path) -> None:
    made = []
    for _ in range(2):
        table = prepared(caches, tmp_path).table("alias", lambda: made.append(1) or np.arange(4, dtype=np.uint64))
        assert table.tolist() == [0, 1, 2, 3]
        assert isinstance(table.base, np.memmap)
    assert made == [1]


def test_structured_table_keeps_its_type(caches: CacheSet, tmp_path: Path) -> None:
    array = np.zeros(3, dtype=[("share", "f8"), ("row", "i8")])
    assert prepared(caches, tmp_path).table("pairs", lambda: array).dtype == array.dtype


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_table_is_made_again(caches: CacheSet, tmp_path: Path, damage: str) -> None:
    prepared(caches, tmp_path).table("alias", lambda: np.arange(4))
    DAMAGE[damage](folders(tmp_path)[0] / "tables" / "alias" / "table.npy")
    assert prepared(caches, tmp_path).table("alias", lambda: np.arange(4)).tolist() == [0, 1, 2, 3]


# --- pickling one that is only in memory ---


def scratch_folders() -> set[Path]:
    place = snapshot_place() / "scratch"
    return set(place.iterdir()) if place.exists() else set()


def test_pickled_population_is_the_same(caches: CacheSet) -> None:
    frame = Population.all_rows(caches).frame().with_columns(weight=pl.col("size") + 1.0, more=pl.lit("x"))
    for population in (Population.from_frame(caches, frame), Population.all_rows(caches)):
        population.table("alias", lambda: np.arange(3))
        population.group_codes("label")
        copy = pickle.loads(pickle.dumps(population))
        assert is_same(copy, population)
        assert copy.uniform == population.uniform
        assert copy.metadata(3) == population.metadata(3)
        assert copy.table("alias", lambda: 1 / 0).tolist() == [0, 1, 2]  # type: ignore[arg-type, return-value]
        assert copy.group_codes("label")[0].tolist() == population.group_codes("label")[0].tolist()


def test_pickle_holds_no_rows(tmp_path: Path) -> None:
    caches = make_caches(tmp_path, a={"x": range(100_000)})
    assert len(pickle.dumps(Population.all_rows(caches))) < 1500


def test_pickled_files_live_as_long_as_the_population(caches: CacheSet) -> None:
    gc.collect()
    before = scratch_folders()
    population = Population.all_rows(caches)
    pickled = pickle.dumps(population)
    assert pickle.dumps(population) == pickled
    assert len(scratch_folders() - before) == 1
    copy = pickle.loads(pickled)
    del population
    assert scratch_folders() == before
    assert len(copy.rows) == 5
    with pytest.raises(FileNotFoundError, match="the process that pickled this population has dropped it or ended"):
        pickle.loads(pickled)


def test_prepared_population_is_pickled_as_its_folder(caches: CacheSet, tmp_path: Path) -> None:
    before = scratch_folders()
    population = prepared(caches, tmp_path)
    assert is_same(pickle.loads(pickle.dumps(population)), population)
    assert scratch_folders() == before


def test_scratch_folder_in_use_is_not_removed_by_the_next(tmp_path: Path) -> None:
    first, second = ScratchFolder(tmp_path), ScratchFolder(tmp_path)
    assert first.path.exists()
    first.close()
    second.close()
    assert list((tmp_path / "scratch").iterdir()) == []
