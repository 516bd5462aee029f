"""The examples and every config run as they tell."""

from __future__ import annotations

import gzip
import runpy
import shlex
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from example_modules import ROOT, example_modules

from dsrt_lightning import open_dataset
from dsrt_lightning.cli import main

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
# What Lightning and its libraries say about small runs is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


def write_idx(path: Path, array: np.ndarray) -> None:
    content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_fashion_files(folder: Path, *, num_train: int, num_test: int) -> Path:
    """Write the four files of Fashion-MNIST with random images, half of them gzipped."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for prefix, count, suffix in (("train", num_train, ".gz"), ("t10k", num_test, "")):
        write_idx(folder / f"{prefix}-images-idx3-ubyte{suffix}", rng.integers(0, 256, (count, 28, 28)))
        write_idx(folder / f"{prefix}-labels-idx1-ubyte{suffix}", np.arange(count) % 10)
    return folder


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory, digits_root: Path) -> Path:
    """A folder with the caches that the configs name; read them, do not write to them."""
    folder = tmp_path_factory.mktemp("examples") / "caches"
    shutil.copytree(digits_root / "caches", folder)
    with example_modules("fashion_mnist"):
        from build import build

        build(str(write_fashion_files(folder.parent / "idx", num_train=300, num_test=40)), str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path, caches: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, which looks like the repository with all caches built."""
    for name in ("configs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "caches").symlink_to(caches)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_script(command: str, *overrides: str) -> None:
    """Run ``python SCRIPT ARGUMENTS`` in this process."""
    program, script, *arguments = shlex.split(command)
    assert program == "python"
    argv, sys.argv = sys.argv, [script, *arguments, *overrides]
    try:
        with example_modules(Path(script).parent.name):
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = argv


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_second_line_of_a_config_is_a_command_that_runs_it_with_an_override(folder: Path, config: Path) -> None:
    command = config.read_text().splitlines()[1].removeprefix("#").strip()
    assert f"configs/{config.name}" in command
    run_script(command, "--data.cfg.train.loader.batch_size", "16", "--trainer.max_steps", "2")
    (checkpoint,) = folder.glob("lightning_logs/version_0/checkpoints/*step=2.ckpt")
    state: dict[str, Any] = torch.load(checkpoint, weights_only=True)["DatasetRTDataModule"]
    assert (state["format"], state["samples"], state["global_batch"]) == ("dsrt.draws", 32, 16)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_config_can_be_previewed(folder: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", f"configs/{config.name}"]) == 0
    assert "all records" in capsys.readouterr().out


def test_demo_balances_interrupts_and_resumes_exactly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_script("python examples/digits/demo.py")
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert "recall of 8, balanced" in out
    assert "interrupted after step 100, in epoch 2 of 3" in out
    assert "the 5,888 remaining sample ids are the same" in out
    assert "the trained weights are the same, bit for bit" in out


def test_fashion_images_and_labels_come_back(folder: Path) -> None:
    dataset = open_dataset("caches/fashion_mnist")
    assert len(dataset) == 340
    sample = dataset[303]
    assert sample.data["image"].shape == (28, 28)
    assert int(sample.data["label"]) == 3
    assert {key: sample.metadata[key] for key in ("label", "item", "split")} == {
        "label": 3,
        "item": "dress",
        "split": "val",
    }


def test_debians_package_gives_all_70000_images(tmp_path: Path) -> None:
    with example_modules("fashion_mnist"):
        from build import DEBIAN_FOLDER, build

    if not Path(DEBIAN_FOLDER).exists():
        pytest.skip("dataset-fashion-mnist is not installed")
    build(DEBIAN_FOLDER, str(tmp_path))
    dataset = open_dataset(tmp_path / "fashion_mnist")
    assert len(dataset) == 70_000
    assert dict(dataset.get_metadata()["split"].value_counts().iter_rows()) == {"train": 60_000, "val": 10_000}


def test_missing_fashion_files_tell_what_to_install(tmp_path: Path) -> None:
    with example_modules("fashion_mnist"):
        from build import FashionMnist
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte.*apt-get install dataset-fashion-mnist"):
        FashionMnist(tmp_path)


def test_idx_file_of_another_length_or_kind_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with example_modules("fashion_mnist"):
        from build import read_idx
    path = tmp_path / "labels"
    write_idx(path, np.arange(5))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"labels: has 12 bytes but its header, shape \[5\], needs 13"):
        read_idx(path)
    path.write_bytes(b"\x00\x00\x0d\x01")
    with pytest.raises(ValueError, match=r"labels: begins with 00000d but an IDX file of bytes begins with 000008"):
        read_idx(path)
