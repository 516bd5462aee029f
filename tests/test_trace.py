"""The flight record agrees with what a run really trained on."""

from __future__ import annotations

import pytest
import torch
import yaml
from resume_scenarios import Scenario, Stop, build_numbers, datamodule, fit

from dsrt_lightning.cli import main
from dsrt_lightning.errors import ConfigError, StateMismatchError
from dsrt_lightning.training.trace import trace


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return build_numbers(tmp_path_factory.mktemp("caches"))


@pytest.mark.parametrize("sampling", [{"mode": "weighted"}, {"mode": "shuffle", "epoch_length": 17}])
@pytest.mark.parametrize("limit", [None, 4])
@pytest.mark.parametrize("stop", [("step", 2), ("step", 9), ("epoch_end", 5), ("exception", 8)])
def test_a_trace_tells_what_was_trained_before_the_checkpoint(tmp_path, cache, sampling, limit, stop):
    scenario = Scenario(sampling=sampling, limit_train_batches=limit, max_epochs=4, stops=(stop,))
    trained = []
    fit(scenario, cache, trained, Stop(*stop, tmp_path / "run.ckpt"), None)
    checkpoint = torch.load(tmp_path / "run.ckpt", weights_only=True)
    traced = trace(datamodule(scenario, cache), checkpoint, range(len(trained)))
    assert [batch.sample_ids.tolist() for batch in traced] == trained


def test_a_trace_splits_batches_over_ranks(tmp_path, cache):
    scenario = Scenario(batch_size=4)
    fit(scenario, cache, [], Stop("step", 2, tmp_path / "run.ckpt"), None)
    checkpoint = torch.load(tmp_path / "run.ckpt", weights_only=True)
    whole = [batch.sample_ids.tolist() for batch in trace(datamodule(scenario, cache), checkpoint, range(3))]
    parts = list(trace(datamodule(scenario, cache), checkpoint, range(3), ranks=2))
    assert [(part.step, part.rank) for part in parts] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    joined = [[*a.sample_ids.tolist(), *b.sample_ids.tolist()] for a, b in zip(parts[::2], parts[1::2], strict=True)]
    assert joined == whole
    with pytest.raises(ConfigError, match="4 rows does not divide by 3 ranks"):
        list(trace(datamodule(scenario, cache), checkpoint, range(1), ranks=3))


def test_a_checkpoint_without_our_state_cannot_be_traced(cache):
    with pytest.raises(StateMismatchError, match=r"no dsrt\.draws state"):
        list(trace(datamodule(Scenario(), cache), {"state_dict": {}}, range(1)))


# The command


@pytest.fixture
def run_files(tmp_path, cache):
    scenario = Scenario(batch_size=4)
    fit(scenario, cache, [], Stop("step", 2, tmp_path / "run.ckpt"), None)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(datamodule(scenario, cache).cfg.plain()))
    return tmp_path


def test_the_command_prints_a_line_a_batch_and_rank(run_files, capsys):
    arguments = ["--checkpoint", str(run_files / "run.ckpt"), "--steps", "1:3", "--ranks", "2"]
    assert main(["trace", str(run_files / "run.yaml"), *arguments]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "numbers:" in line]
    assert [(line[0], line[1], line[4]) for line in lines] == [
        ("train", "1", "0"),
        ("train", "1", "1"),
        ("train", "2", "0"),
        ("train", "2", "1"),
    ]


@pytest.mark.parametrize("steps", ["3:3", "a:b", "-1:2", "1:x"])
def test_wrong_steps_are_a_usage_error(run_files, capsys, steps):
    with pytest.raises(SystemExit) as exit_:
        main(["trace", str(run_files / "run.yaml"), "--checkpoint", "c", f"--steps={steps}"])
    assert exit_.value.code == 2
    assert repr(steps) in capsys.readouterr().err


def test_a_missing_checkpoint_is_named(run_files, capsys):
    assert main(["trace", str(run_files / "run.yaml"), "--checkpoint", "nowhere.ckpt", "--steps", "1"]) == 1
    assert "nowhere.ckpt" in capsys.readouterr().err


def test_a_checkpoint_of_other_rules_is_refused_with_both_sizes(run_files, capsys):
    config = yaml.safe_load((run_files / "run.yaml").read_text())
    config["rules"][0] = {"head": 12}
    (run_files / "other.yaml").write_text(yaml.safe_dump(config))
    assert main(["trace", str(run_files / "other.yaml"), "--checkpoint", str(run_files / "run.ckpt"), "--steps", "1"])
    error = capsys.readouterr().err
    assert "20 rows" in error
    assert "12 rows" in error
