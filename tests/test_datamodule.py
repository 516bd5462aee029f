"""The datamodule under a Trainer: what it loads, and what it saves."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest
import torch
import yaml
from fake_cuda import FakeCopies, pretend_cuda
from fitting import Model, fit
from omegaconf import OmegaConf

from dsrt_lightning import DatasetRTDataModule
from dsrt_lightning.errors import StateMismatchError


def test_fit_trains_on_the_selected_rows_and_validates_each_row_once(tmp_path, cfg):
    model, _ = fit(tmp_path, cfg)
    assert len(model.trained) == 5
    assert all(i % 3 < 2 and i % 4 >= 1 for batch in model.trained for i in batch)
    assert sorted(i for _, batch in model.validated for i in batch) == [i for i in range(48) if i % 3 == 2 and i % 4]


def test_setup_works_alone_without_trainer_or_prepare_data(cfg):
    data = DatasetRTDataModule(cfg)
    data.setup("fit")
    assert len(data.train_dataloader()) == 5
    assert len(data.val_dataloader()) == 1


def test_what_was_edited_after_setup_is_trained_on(tmp_path, cfg):
    data = DatasetRTDataModule(cfg)
    data.setup("fit")
    train = data.datasets["train"]
    train.update_metadata(train.get_metadata().filter(pl.col("sample_id") < 6))
    model, _ = fit(tmp_path, cfg, datamodule=data)
    assert {i for batch in model.trained for i in batch} <= set(range(6))
    assert len(model.validated) == 3
    data.set_sampling("train", {"mode": "shuffle", "epoch_length": 8})
    model, _ = fit(tmp_path, cfg, datamodule=data)
    assert len(model.trained) == 2


@pytest.mark.parametrize("kind", ["mapping", "yaml", "omegaconf", "config"])
def test_a_config_may_be_a_mapping_a_path_omegaconf_or_a_config(tmp_path, cfg, kind):
    from dsrt_lightning import DatasetRTConfig

    path = tmp_path / "cfg.yaml"
    path.write_text(yaml.safe_dump(cfg))
    source = {
        "mapping": cfg,
        "yaml": path,
        "omegaconf": OmegaConf.create(cfg),
        "config": DatasetRTConfig.model_validate(cfg),
    }[kind]
    data = DatasetRTDataModule(source)
    data.setup("fit")
    assert len(data.datasets["train"]) == 24


def test_a_mode_alone_is_a_sampling(cfg):
    cfg["train"]["sampling"] = "weighted_once"
    assert DatasetRTDataModule(cfg).cfg.train.sampling.mode == "weighted_once"


def test_hyperparameters_are_plain_and_make_the_same_datamodule_again(cfg):
    data = DatasetRTDataModule(cfg)
    again = DatasetRTDataModule(**data.hparams)
    assert again.cfg == data.cfg
    assert yaml.safe_load(yaml.safe_dump(dict(data.hparams))) == dict(data.hparams)


def test_hyperparameters_keep_the_type_of_classes(cfg):
    cfg["train"]["sampling"] = {"mode": "quota", "column": "label", "shares": {0: 0.5, 1: 0.5}}
    data = DatasetRTDataModule(cfg)
    assert DatasetRTDataModule(**data.hparams).cfg == data.cfg


def test_a_checkpoint_loads_with_weights_only_and_holds_the_state(tmp_path, cfg):
    _, run = fit(tmp_path, cfg, max_steps=3)
    run.save_checkpoint(tmp_path / "last.ckpt")
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)["DatasetRTDataModule"]
    assert state["format"] == "dsrt.draws"
    assert (state["epoch"], state["pass"], state["samples"], state["global_batch"]) == (0, 0, 12, 4)


def test_a_subclass_resumes_from_its_parents_checkpoint(tmp_path, cfg):
    class Renamed(DatasetRTDataModule):
        pass

    whole, _ = fit(tmp_path, cfg)
    _, run = fit(tmp_path, cfg, max_steps=3)
    run.save_checkpoint(tmp_path / "three.ckpt")
    rest, _ = fit(tmp_path, cfg, datamodule=Renamed(cfg), ckpt_path=tmp_path / "three.ckpt")
    assert rest.trained == whole.trained[3:]


def test_a_checkpoint_of_other_rules_is_refused_with_both_sizes(tmp_path, cfg):
    _, run = fit(tmp_path, cfg, max_steps=3)
    run.save_checkpoint(tmp_path / "three.ckpt")
    cfg["train"]["rules"][0] = {"keep": "label < 1"}
    with pytest.raises(StateMismatchError, match=r"24 rows.*12 rows"):
        fit(tmp_path, cfg, ckpt_path=tmp_path / "three.ckpt")


def test_a_checkpoint_without_our_state_is_refused_instead_of_starting_anew(tmp_path, cfg):
    _, run = fit(tmp_path, cfg, max_steps=3)
    run.save_checkpoint(tmp_path / "three.ckpt")
    checkpoint = torch.load(tmp_path / "three.ckpt", weights_only=True)
    del checkpoint["DatasetRTDataModule"]
    torch.save(checkpoint, tmp_path / "bare.ckpt")
    with pytest.raises(StateMismatchError, match=r"after 3 steps.*load_from_checkpoint"):
        fit(tmp_path, cfg, ckpt_path=tmp_path / "bare.ckpt")


def test_counters_of_an_unknown_layout_are_left_alone_with_a_warning(tmp_path, cfg):
    _, run = fit(tmp_path, cfg, max_steps=3)
    run.save_checkpoint(tmp_path / "three.ckpt")
    checkpoint = torch.load(tmp_path / "three.ckpt", weights_only=True)
    callback = next(c for c in run.callbacks if type(c).__name__ == "ExactResume")
    loops = checkpoint["loops"]["fit_loop"]
    loops["progress_of_batches"] = loops.pop("epoch_loop.batch_progress")
    run.state.fn = "fit"
    with pytest.warns(UserWarning, match="batch_progress"):
        callback.on_load_checkpoint(run, run.lightning_module, checkpoint)


def test_a_resume_with_another_batch_size_goes_on_with_the_next_sample(tmp_path, cfg):
    whole, _ = fit(tmp_path, cfg, max_epochs=2)
    _, run = fit(tmp_path, cfg, max_steps=3)
    run.save_checkpoint(tmp_path / "three.ckpt")
    cfg["train"]["loader"]["batch_size"] = 8
    rest, _ = fit(tmp_path, cfg, max_epochs=2, ckpt_path=tmp_path / "three.ckpt")
    samples = [i for batch in whole.trained for i in batch]
    assert [i for batch in rest.trained for i in batch] == samples[12:20] + samples[20:36]
    assert [len(batch) for batch in rest.trained] == [8, 8, 8]


# Trainer options


def test_overfit_batches_repeats_the_same_batches(tmp_path, cfg):
    model, _ = fit(tmp_path, cfg, max_epochs=3, overfit_batches=2)
    assert model.trained[:2] == model.trained[2:4] == model.trained[4:6]
    assert len(model.trained) == 6


def test_fast_dev_run_trains_one_batch(tmp_path, cfg):
    model, _ = fit(tmp_path, cfg, fast_dev_run=True)
    assert len(model.trained) == 1


def test_an_epoch_length_that_changes_between_epochs_resumes_exactly(tmp_path, cfg):
    class Growing(DatasetRTDataModule):
        def train_dataloader(self):
            self.set_sampling("train", {"mode": "shuffle", "epoch_length": 8 * (1 + self.trainer.current_epoch)})
            return super().train_dataloader()

    options = {"max_epochs": 3, "reload_dataloaders_every_n_epochs": 1}
    whole, _ = fit(tmp_path, cfg, datamodule=Growing(cfg), **options)
    assert len(whole.trained) == 2 + 4 + 6
    for stop in (1, 2, 3, 6, 8):
        first, run = fit(tmp_path, cfg, datamodule=Growing(cfg), max_steps=stop, **options)
        run.save_checkpoint(tmp_path / "stop.ckpt")
        rest, _ = fit(tmp_path, cfg, datamodule=Growing(cfg), ckpt_path=tmp_path / "stop.ckpt", **options)
        assert first.trained + rest.trained == whole.trained, stop


# A GPU


class OnGpu(DatasetRTDataModule):
    def _device(self):
        return torch.device("cuda")


def test_batches_that_are_copied_ahead_are_not_counted_in_a_checkpoint(tmp_path, cfg, monkeypatch):
    whole, _ = fit(tmp_path, cfg, max_epochs=2)
    pretend_cuda(monkeypatch)
    ahead, _ = fit(tmp_path, cfg, max_epochs=2, datamodule=OnGpu(cfg))
    assert FakeCopies.last.log[:3] == [("start", 0), ("start", 1), ("finish", 0)]
    assert (ahead.trained, ahead.validated) == (whole.trained, whole.validated)
    for stop in range(1, len(whole.trained)):
        first, run = fit(tmp_path, cfg, max_epochs=2, max_steps=stop, datamodule=OnGpu(cfg))
        run.save_checkpoint(tmp_path / "stop.ckpt")
        rest, _ = fit(tmp_path, cfg, max_epochs=2, datamodule=OnGpu(cfg), ckpt_path=tmp_path / "stop.ckpt")
        assert first.trained + rest.trained == whole.trained, stop


class OnCpuHook(Model):
    def on_before_batch_transfer(self, batch, dataloader_idx):
        return batch


@pytest.mark.parametrize(
    ("device", "model", "expected"), [("cpu", Model, None), ("cuda", Model, "cuda"), ("cuda", OnCpuHook, None)]
)
def test_batches_go_ahead_to_a_gpu_unless_a_hook_is_written_for_them_on_the_cpu(cfg, device, model, expected):
    data = DatasetRTDataModule(cfg)
    assert data._device() is None
    strategy = SimpleNamespace(root_device=torch.device(device))
    data.trainer = SimpleNamespace(strategy=strategy, lightning_module=model())
    assert data._device() == (expected and torch.device(expected))


def test_device_prefetch_can_be_turned_off(cfg, monkeypatch):
    pretend_cuda(monkeypatch)
    cfg["val"]["loader"]["device_prefetch"] = False
    data = OnGpu(cfg)
    data.setup("fit")
    assert data.train_dataloader()._device.type == "cuda"
    assert data.val_dataloader()[0]._device.type == "cpu"
