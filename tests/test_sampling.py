"""Samplings: what is refused, and the text that a checkpoint keeps."""

from __future__ import annotations

from typing import Any

import pytest

from dsrt_lightning.draws.sampling import Sampling


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "shuffle"}, "shuffle"),
        ({"mode": "weighted", "epoch_length": 4096}, "weighted epoch_length=4096"),
        ({"mode": "quota", "column": "label"}, 'quota column="label" shares="equal"'),
        (
            {"mode": "quota", "column": "label", "shares": {"b": 3, "a": 1.5}},
            'quota column="label" shares=[["a", 1.5], ["b", 3.0]]',
        ),
        (
            {"mode": "blocks", "block_records": 256, "window_records": 4096},
            "blocks block_records=256 window_records=4096",
        ),
    ],
)
def test_the_text_names_mode_and_given_options(options: dict[str, Any], text: str) -> None:
    assert Sampling(**options).text() == text


def test_of_accepts_a_name_a_mapping_or_a_sampling_and_sets_the_epoch_length() -> None:
    expected = Sampling("shuffle", 10)
    assert Sampling.of("shuffle", epoch_length=10) == expected
    assert Sampling.of({"mode": "shuffle", "epoch_length": 10}) == expected
    assert Sampling.of({"mode": "shuffle", "epoch_length": 3}, epoch_length=10) == expected
    assert Sampling.of(expected) == expected


def test_only_quota_needs_a_group_column_and_the_global_batch() -> None:
    weighted, quota = Sampling("weighted"), Sampling("quota", column="label")
    assert (weighted.group_columns, weighted.uses_global_batch) == ((), False)
    assert (quota.group_columns, quota.uses_global_batch) == (("label",), True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "random"}, "mode is 'random' but must be one of sequential, shuffle, weighted, weighted_once, quota"),
        ({"epoch_length": 0}, r"epoch_length is 0 but must be an integer in \[1, 2\^63\)"),
        ({"epoch_length": True}, "epoch_length is True"),
        ({"epoch_length": 1.5}, r"epoch_length is 1\.5"),
        ({"epoch_length": 2**63}, "epoch_length is 9223372036854775808"),
        ({"mode": "shuffle", "column": "label"}, "column is an option of mode 'quota', not of 'shuffle'"),
        ({"mode": "quota", "column": "x", "block_records": 4}, "block_records is an option of mode 'blocks', not of"),
        ({"mode": "quota"}, "mode 'quota' needs column"),
        ({"mode": "quota", "column": "label", "shares": "even"}, "shares is 'even' but must be 'equal' or map"),
        ({"mode": "quota", "column": "label", "shares": {}}, "shares is {} but must be 'equal' or map"),
        ({"mode": "quota", "column": "label", "shares": {"a": 0}}, r"shares\['a'\] is 0 but must be finite and above"),
        ({"mode": "quota", "column": "label", "shares": {3: float("nan")}}, r"shares\[3\] is nan but must be finite"),
        ({"mode": "blocks", "block_records": 4}, "mode 'blocks' needs block_records and window_records"),
        ({"mode": "blocks", "block_records": 0, "window_records": 4}, "block_records is 0 but must be an integer"),
        (
            {"mode": "blocks", "block_records": 4, "window_records": 10},
            "window_records is 10 but must be a multiple .* 4",
        ),
    ],
)
def test_a_wrong_option_is_refused_with_its_value(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Sampling(**options)
