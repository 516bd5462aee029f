"""What the GPU benchmark makes of its figures; it needs a GPU to have any."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from example_modules import ROOT

sys.path.insert(0, str(ROOT))

from benchmarks import ours
from benchmarks.data import SIZES, Data
from benchmarks.gpu import Figures, measure, share_within

FIGURES = {"batch_bytes": 2**20, "pinned": 1e-4, "pageable": 4e-4, "pinning": 2e-4, "loader": 1e-3, "model": 2e-3}


def test_copies_within_kernels_are_counted_by_their_time():
    assert share_within([(1.0, 2.0), (3.0, 5.0)], [(0.0, 1.5), (1.75, 2.0), (4.0, 9.0)]) == pytest.approx(1.75 / 3)


def test_a_line_tells_time_speed_and_part_of_the_link():
    text = Figures(**FIGURES, in_turn=4e-3, ahead=2e-3, beside=0.97).markdown()
    assert "| loader with device | 2.000 | 500 | 0.05 |" in text
    assert "97% of the time of copies lay within kernels" in text


def test_figures_without_overlap_are_problems_with_both_numbers():
    assert Figures(**FIGURES, in_turn=4e-3, ahead=2e-3, beside=0.5).problems() == []
    assert Figures(**FIGURES, in_turn=3e-3, ahead=4e-3, beside=0.25).problems() == [
        "only 25% of the time of copies lay within kernels, not half of it",
        "4.000 ms a batch ahead is no less than 3.000 in turn",
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_says_so():
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["no GPU: torch.cuda.is_available() is False, so nothing was measured"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_benchmark_runs_on_tiny_data(tmp_path):
    data = Data(tmp_path, SIZES["smoke"])
    assert measure(data, ours.image_store("arrays")(data)).markdown()
