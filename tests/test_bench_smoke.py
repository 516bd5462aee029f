"""The benchmarks: every case of ours and every limit runs and validates what arrives; no test looks at a time."""

from __future__ import annotations

import importlib
import sys

import pytest
from example_modules import ROOT

sys.path.insert(0, str(ROOT))

from benchmarks.case import Row, load
from benchmarks.data import SIZES, Data
from benchmarks.run import WORKLOADS, Measured
from benchmarks.table import Ratio, Table

# Processes are tested with the loader, and starting them takes longer than everything here.
CASES = [
    (workload, name)
    for workload in WORKLOADS
    for name, case in load(workload).CASES.items()
    if case.system in ("ours", "limit") and "processes" not in name
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return Data(tmp_path_factory.mktemp("bench"), SIZES["smoke"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("workload", "name"), CASES)
def test_a_case_delivers_sound_records_and_measures_more_than_nothing(data, workload, name):
    case = load(workload).CASES[name]
    measures = case.run(data, case.store(data))
    assert measures
    assert all(value >= 0 for value in measures.values())


@pytest.mark.parametrize("workload", WORKLOADS)
def test_rows_name_cases_that_exist(workload):
    module = load(workload)
    for row in module.ROWS:
        for side in (row.ours, row.base, row.limit):
            assert side is None or side.split(".")[0] in module.CASES


def test_importing_a_workload_imports_no_system():
    # DatasetRT's interpreter lacks what ours needs, and the other way round.
    for workload in WORKLOADS:
        source = importlib.import_module(f"benchmarks.{workload}").__dict__
        assert not {"dsrt_lightning", "dataset_rt", "torch", "polars"} & source.keys()


def test_a_store_is_built_once_and_not_by_halves(tmp_path):
    data = Data(tmp_path, SIZES["smoke"])
    with pytest.raises(KeyError):
        data.once("store", lambda root: {}["failing"])
    assert not (tmp_path / "store").exists()
    assert data.once("store", lambda root: (root / "file").touch()) == tmp_path / "store"
    data.once("store", lambda root: pytest.fail("built twice"))


def test_ratios_compare_equal_trials():
    # The second trial was twice as slow for both: a drift of the machine is no difference.
    assert Ratio.of([10.0, 20.0, 12.0], [5.0, 10.0, 3.0]) == Ratio(2.0, 2.0, 4.0)


def table_line(measured, row, monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.table.load", lambda workload: type("module", (), {"ROWS": [row]}))
    return Table(Data(tmp_path, SIZES["smoke"]), measured).markdown().splitlines()[-1]


def trials(**seconds):
    return [
        Measured("w", case, trial, {"s": value}) for case, all_ in seconds.items() for trial, value in enumerate(all_)
    ]


def test_a_line_tells_ratio_range_target_and_limit(monkeypatch, tmp_path):
    row = Row("a row", "ours.s", "base.s", "limit.s", 4, lambda data: 100, "MiB/s")
    measured = trials(ours=[1.0, 2.0, 1.0], base=[3.0, 10.0, 2.0], limit=[0.5, 1.0, 0.5])
    line = table_line(measured, row, monkeypatch, tmp_path)
    assert line == "| a row | 100 MiB/s | 3.00 (2.00 - 5.00) | 4 | **not met** | 6.0 | 33 MiB/s |"


def test_without_the_baseline_a_line_has_no_ratio(monkeypatch, tmp_path):
    row = Row("a row", "ours.s", "base.s", None, 4)
    line = table_line(trials(ours=[1.0, 2.0]), row, monkeypatch, tmp_path)
    assert line == "| a row | 1.5 s | not measured | 4 |  |  |  |"
