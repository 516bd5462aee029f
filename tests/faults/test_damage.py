"""Whatever happens to the files of a cache: an exception that names file and record, or the right bytes."""

from __future__ import annotations

from collections.abc import Callable

from scale import count

Run = Callable[..., str]


def test_flipped_byte_or_truncated_file_gives_no_wrong_bytes_and_no_signal(run_script: Run) -> None:
    kinds = ["bytes-none", "arrays-none", "arrays-dictionary", "ragged-zstd", "pickle-zstd"]
    run_script("corruption.py", count(fast=101, full=1), *count(fast=kinds, full=[]))


def test_files_that_vanish_under_an_open_dataset_give_no_wrong_bytes_and_no_signal(run_script: Run) -> None:
    run_script("vanishing_files.py", count(fast=5, full=300))


def test_mutated_inputs_of_the_python_parsers_are_refused_by_name(run_script: Run) -> None:
    run_script("fuzz_parsers.py", count(fast=6_000, full=600_000))
