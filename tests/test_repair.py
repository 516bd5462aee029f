"""Exactly what is broken is replaced by a copy's, verified and at once; whatever else is the case, nothing changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cache_builders import build
from damage import edit_manifest, extend, flip_byte, forge, swap, truncate

from dsrt_lightning import open_dataset
from dsrt_lightning.errors import CacheBusyError, CacheConflictError, CacheNotFoundError, CorruptCacheError
from dsrt_lightning.store.cache import Cache
from dsrt_lightning.store.manifest import Compression, read_manifest
from dsrt_lightning.store.publication import locked
from dsrt_lightning.store.repair import Repair, repair_cache
from dsrt_lightning.store.verify import verify_cache

NUM_RECORDS = 40
NOTHING_TO_REPAIR = Repair((), ())
SHARDS = ("shards/000000.bin", "shards/000001.bin")


def make(root: Path, name: str = "tiny", first: int = 0) -> Path:
    """Build a cache with every kind of file, two shards among them."""
    records = [
        ({"x": np.arange(i, i + 40) * 77_777, "i": np.int64(i)}, {"i": i}) for i in range(first, first + NUM_RECORDS)
    ]
    path = build(root, name, records, compression=Compression(dictionary_bytes=512), shard_bytes=3000)
    assert set(SHARDS) < set(contents(path))
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Return every file in a folder, hidden ones too."""
    files = (file for file in path.rglob("*") if not file.is_dir())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return make(tmp_path / "backup")


@pytest.fixture
def cache(tmp_path: Path, mirror: Path) -> Path:
    """A copy of the mirror, whose files are therefore not the mirror's."""
    return Path(shutil.copytree(mirror, tmp_path / "caches/tiny"))


def assert_repaired(cache: Path, mirror: Path, *replaced: str) -> None:
    """Repair; exactly these files are replaced, and then all is as in the mirror."""
    intact = {name: (cache / name).stat().st_ino for name in contents(mirror) if name not in replaced}
    assert repair_cache(cache, mirror) == Repair(replaced, ())
    assert contents(cache) == contents(mirror)
    assert {name: (cache / name).stat().st_ino for name in intact} == intact
    assert os.listdir(cache.parent) == [cache.name]
    assert list(verify_cache(cache)) == []
    assert repair_cache(cache, mirror) == NOTHING_TO_REPAIR


def test_intact_cache_has_nothing_to_repair(cache: Path, mirror: Path) -> None:
    assert_repaired(cache, mirror)


# --- what is replaced


@pytest.mark.parametrize("name", ["index.bin", "metadata.arrow", "dictionary.zst", *SHARDS])
@pytest.mark.parametrize(
    "damage",
    [
        lambda file: flip_byte(file, 17),
        lambda file: flip_byte(file, -1),
        lambda file: truncate(file, by=3),
        lambda file: os.truncate(file, 0),
        lambda file: extend(file, by=3),
        Path.unlink,
    ],
    ids=["flipped first", "flipped last", "truncated", "emptied", "extended", "deleted"],
)
def test_broken_file_is_replaced(cache: Path, mirror: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(cache / name)
    assert_repaired(cache, mirror, name)


def test_several_broken_files_are_replaced_in_the_order_of_the_manifest(cache: Path, mirror: Path) -> None:
    swap(cache / SHARDS[0], cache / SHARDS[1])
    (cache / "index.bin").unlink()
    assert_repaired(cache, mirror, "index.bin", *SHARDS)


def test_missing_folder_of_shards_is_made_and_filled(cache: Path, mirror: Path) -> None:
    shards = sorted(f"shards/{name}" for name in os.listdir(mirror / "shards"))
    shutil.rmtree(cache / "shards")
    assert_repaired(cache, mirror, *shards)


def test_file_without_a_read_error_is_not_needed(cache: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Cache.check_file

    def failing(self: Cache, name: str) -> None:
        if self.path == cache and name == SHARDS[1] and not is_repaired():
            raise OSError(5, "Input/output error", str(cache / name))
        real(self, name)

    before = (cache / SHARDS[1]).stat().st_ino
    is_repaired = lambda: (cache / SHARDS[1]).stat().st_ino != before  # noqa: E731
    monkeypatch.setattr(Cache, "check_file", failing)
    assert_repaired(cache, mirror, SHARDS[1])


def test_mirror_may_be_broken_where_the_cache_is_intact(cache: Path, mirror: Path) -> None:
    flip_byte(cache / SHARDS[0], 5)
    flip_byte(mirror / SHARDS[1], 5)
    (mirror / "metadata.arrow").unlink()
    expected = contents(cache) | {SHARDS[0]: contents(mirror)[SHARDS[0]]}
    assert repair_cache(cache, mirror) == Repair((SHARDS[0],), ())
    assert contents(cache) == expected


def test_two_broken_copies_repair_each_other(cache: Path, mirror: Path) -> None:
    sound = contents(mirror)
    flip_byte(cache / SHARDS[0], 5)
    flip_byte(mirror / SHARDS[1], 5)
    repair_cache(cache, mirror)
    repair_cache(mirror, cache)
    assert contents(cache) == contents(mirror) == sound


# --- the manifest


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: flip_byte(file, 100), lambda file: os.truncate(file, 0)])
def test_broken_manifest_is_replaced_where_all_else_is_the_mirrors(
    cache: Path, mirror: Path, damage: Callable[[Path], None]
) -> None:
    damage(cache / "manifest.json")
    assert_repaired(cache, mirror, "manifest.json")


def test_broken_manifest_and_another_broken_file_are_refused_by_name(cache: Path, mirror: Path) -> None:
    (cache / "manifest.json").unlink()
    flip_byte(cache / SHARDS[1], 5)
    before = contents(cache)
    with pytest.raises(
        CorruptCacheError, match=rf"^{cache}: there is no complete cache.*; and {SHARDS[1]} are not as in {mirror}"
    ):
        repair_cache(cache, mirror)
    assert contents(cache) == before


def test_mirror_of_another_cache_is_refused_with_both_identities(cache: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "others", first=1)
    flip_byte(cache / SHARDS[0], 5)
    before = contents(cache)
    identities = read_manifest(cache).identity, read_manifest(other).identity
    with pytest.raises(
        CacheConflictError, match=rf"^{cache}: has identity {identities[0]} but {other} has {identities[1]}"
    ):
        repair_cache(cache, other)
    assert contents(cache) == before


def test_edited_manifest_whose_identity_fits_is_another_cache(cache: Path, mirror: Path) -> None:
    edit_manifest(cache, "num_records", to=NUM_RECORDS, sign=True)
    edit_manifest(cache, "fingerprint", to="another", sign=True)
    with pytest.raises(CacheConflictError):
        repair_cache(cache, mirror)


@pytest.mark.parametrize("which", ["cache", "mirror"])
def test_missing_folder_is_named(tmp_path: Path, cache: Path, mirror: Path, which: str) -> None:
    nothing = tmp_path / "nothing"
    with pytest.raises(CacheNotFoundError, match=f"^{nothing}: there is no such directory"):
        repair_cache(nothing if which == "cache" else cache, nothing if which == "mirror" else mirror)
    assert not list(tmp_path.glob(".*"))


def test_mirror_without_a_sound_manifest_is_refused_by_name(cache: Path, mirror: Path) -> None:
    flip_byte(mirror / "manifest.json", 100)
    with pytest.raises(CorruptCacheError, match=f"^{mirror}/manifest.json"):
        repair_cache(cache, mirror)


def test_cache_cannot_be_its_own_mirror(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(cache)
    with pytest.raises(ValueError, match="is the cache that is to be repaired; name a copy"):
        repair_cache(cache, tmp_path / "link")


# --- what is not replaced


def test_file_that_is_broken_in_the_mirror_too_is_named_and_left_while_others_are_replaced(
    cache: Path, mirror: Path
) -> None:
    sound = (mirror / SHARDS[0]).read_bytes()
    flip_byte(cache / SHARDS[0], 5)
    flip_byte(mirror / SHARDS[0], 6)
    truncate(cache / SHARDS[1], by=1)
    before = (cache / SHARDS[0]).read_bytes()
    repair = repair_cache(cache, mirror)
    assert repair.replaced == (SHARDS[1],)
    (problem,) = repair.problems
    assert problem.startswith(f"{mirror / SHARDS[0]}: has {len(sound)} bytes and CRC32C ")
    assert (cache / SHARDS[0]).read_bytes() == before
    assert set(contents(cache)) == set(contents(mirror))


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: truncate(file, by=1)])
def test_file_that_is_missing_or_short_in_the_mirror_too_is_named(
    cache: Path, mirror: Path, damage: Callable[[Path], None]
) -> None:
    damage(mirror / "index.bin")
    flip_byte(cache / "index.bin", 70)
    before = contents(cache)
    repair = repair_cache(cache, mirror)
    assert (repair.replaced, len(repair.problems)) == ((), 1)
    assert repair.problems[0].startswith(f"{mirror}/index.bin: ")
    assert contents(cache) == before


def test_record_that_was_wrong_from_the_beginning_stays_a_problem(cache: Path, mirror: Path) -> None:
    for path in (cache, mirror):
        flip_byte(path / SHARDS[0], 5)
        forge(path, SHARDS[0])
    repair = repair_cache(cache, mirror)
    assert repair.replaced == ()
    assert any(f"{cache / SHARDS[0]}: record 0 " in problem for problem in repair.problems)


def test_file_that_may_not_be_read_is_not_taken_for_broken(
    cache: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(self: Cache, name: str) -> None:
        raise PermissionError(13, "Permission denied", str(self.path / name))

    monkeypatch.setattr(Cache, "check_file", forbidden)
    before = contents(cache)
    with pytest.raises(PermissionError, match=r"index\.bin"):
        repair_cache(cache, mirror)
    assert contents(cache) == before


# --- links


def test_link_in_place_of_a_file_is_replaced_and_not_followed(cache: Path, mirror: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    for name in (SHARDS[0], "index.bin", "manifest.json"):
        (cache / name).unlink()
        (cache / name).symlink_to(outside)
        assert_repaired(cache, mirror, name)
        assert not (cache / name).is_symlink()
    assert outside.read_bytes() == b"precious"


def test_link_to_the_right_bytes_is_replaced_too(cache: Path, mirror: Path) -> None:
    (cache / SHARDS[0]).unlink()
    (cache / SHARDS[0]).symlink_to(mirror / SHARDS[0])
    assert_repaired(cache, mirror, SHARDS[0])


def test_link_in_place_of_the_folder_of_shards_is_refused_and_nothing_is_written_through_it(
    cache: Path, mirror: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    shutil.move(cache / "shards", outside)
    (cache / "shards").symlink_to(outside)
    flip_byte(outside / "000000.bin", 5)
    before = contents(outside)
    with pytest.raises(CorruptCacheError, match=f"^{cache}/shards: is no folder of this cache"):
        repair_cache(cache, mirror)
    assert contents(outside) == before


def test_link_where_the_copy_is_to_be_written_is_not_followed(cache: Path, mirror: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    (cache / "shards/.000000.bin.repairing").symlink_to(outside)
    flip_byte(cache / SHARDS[0], 5)
    assert_repaired(cache, mirror, SHARDS[0])
    assert outside.read_bytes() == b"precious"


def test_folder_or_pipe_in_place_of_a_file_is_an_error_or_replaced(cache: Path, mirror: Path) -> None:
    (cache / "index.bin").unlink()
    os.mkfifo(cache / "index.bin")
    assert_repaired(cache, mirror, "index.bin")
    (cache / "index.bin").unlink()
    (cache / "index.bin").mkdir()
    repair = repair_cache(cache, mirror)
    assert repair.replaced == ()
    assert repair.problems == (f"[Errno 21] Is a directory: '{cache}/index.bin'",)


def test_cache_may_be_reached_through_a_link(cache: Path, mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(cache)
    flip_byte(cache / SHARDS[0], 5)
    assert repair_cache(tmp_path / "link", mirror) == Repair((SHARDS[0],), ())
    assert contents(cache) == contents(mirror)


# --- others at work


def test_reader_that_has_the_broken_file_open_keeps_it_and_new_readers_get_the_new_one(
    cache: Path, mirror: Path
) -> None:
    flip_byte(cache / SHARDS[0], -1)
    before = open_dataset(cache, sampling="sequential")
    assert int(before[0].data["i"]) == 0
    repair_cache(cache, mirror)
    after = open_dataset(cache, sampling="sequential")
    assert [int(sample.data["i"]) for sample in after[:]] == list(range(NUM_RECORDS))
    assert int(before[0].data["i"]) == 0
    with pytest.raises(CorruptCacheError, match=SHARDS[0]):
        before[:]


def test_second_repair_at_the_same_time_is_told(cache: Path, mirror: Path) -> None:
    with locked(cache), pytest.raises(CacheBusyError, match=f"process {os.getpid()} is building or repairing it"):
        repair_cache(cache, mirror)


def test_debris_of_a_killed_repair_is_removed_and_does_not_disturb_readers(cache: Path, mirror: Path) -> None:
    for name in (".manifest.json.repairing", "shards/.000001.bin.repairing"):
        (cache / name).write_bytes(b"half a f")
    (cache.parent / f".{cache.name}.lock").write_text("1234567")
    assert list(verify_cache(cache)) == []
    assert_repaired(cache, mirror)
