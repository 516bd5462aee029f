"""The datamodule under a Trainer: what it loads, what it saves, and what it refuses."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import lightning
import polars as pl
import pytest
import torch
import yaml
from cache_builders import numbers
from fake_cuda import FakeCopies, pretend_cuda
from omegaconf import OmegaConf
from safe_loading import SAFELY

from dsrt_lightning import DatasetRTDataModule
from dsrt_lightning.errors import ConfigError, EmptyPopulationError, RuleError, StateMismatchError


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(numbers(tmp_path_factory.mktemp("caches")))


@pytest.fixture
def cfg(cache):
    return {
        "caches": [cache],
        "seed": 7,
        "rules": [{"keep": "score >= 2"}],
        "train": {
            "rules": [{"keep": "label < 2"}, {"weight": {"balance": "label"}}],
            "sampling": {"mode": "weighted", "epoch_length": 20},
            "loader": {"batch_size": 4},
        },
        "val": {"rules": [{"keep": "label = 2"}], "loader": {"batch_size": 5}},
    }


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.trained, self.validated = [], []

    def training_step(self, batch, batch_idx):
        ids = batch["id"] if isinstance(batch, dict) and "id" in batch else None
        self.trained.append(ids.tolist() if ids is not None else {k: v["id"].tolist() for k, v in batch.items() if v})
        return self.weight.sum()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.validated.append((dataloader_idx, batch["id"][batch["valid"]].tolist()))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(tmp_path, **options):
    settings = {"max_epochs": 1, "num_sanity_val_steps": 0, "enable_checkpointing": False, **options}
    return lightning.Trainer(
        default_root_dir=tmp_path,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


def fit(tmp_path, cfg, *, ckpt_path=None, model=None, datamodule=None, **options):
    model = model or Model()
    run = trainer(tmp_path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = datamodule or DatasetRTDataModule(cfg)
        run.fit(model, datamodule=data, ckpt_path=ckpt_path, **SAFELY)
    return model, run


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


# Several loaders


def test_validation_sets_are_loaders_with_their_own_rules(tmp_path, cfg):
    cfg["val"]["sets"] = {"low": {"rules": [{"keep": "score = 2"}]}, "all": {"loader": {"batch_size": 3}}}
    model, _ = fit(tmp_path, cfg)
    by_loader = {k: sorted(i for n, batch in model.validated if n == k for i in batch) for k in (0, 1)}
    assert by_loader[0] == [i for i in range(48) if i % 3 == 2 and i % 4 == 1]
    assert by_loader[1] == [i for i in range(48) if i % 3 == 2 and i % 4]


def test_a_set_takes_over_the_settings_of_its_split_also_from_saved_hyperparameters(cfg):
    cfg["val"]["loader"] = {"batch_size": 7, "fields": ["id"]}
    cfg["val"]["sets"] = {"a": {}, "b": {"loader": {"batch_size": 32}}}
    data = DatasetRTDataModule(DatasetRTDataModule(cfg).cfg)
    for module in (data, DatasetRTDataModule(**data.hparams)):
        module.setup("fit")
        assert [module.plan(f"val.{name}").loader.batch_size for name in "ab"] == [7, 32]
        assert [module.plan(f"val.{name}").loader.fields for name in "ab"] == [["id"], ["id"]]


@pytest.mark.parametrize("combine", ["max_size_cycle", "min_size", "max_size"])
@pytest.mark.parametrize("stop", [1, 4, 5, 6, 9])
def test_several_training_loaders_resume_exactly_in_every_mode(tmp_path, cfg, combine, stop):
    cfg["train"]["combine"] = combine
    cfg["train"]["sets"] = {
        "long": {"sampling": {"mode": "shuffle"}},
        "short": {"rules": [{"keep": "label = 0"}], "sampling": {"mode": "weighted", "epoch_length": 9}},
    }
    whole, _ = fit(tmp_path, cfg, max_epochs=2)
    first, run = fit(tmp_path, cfg, max_epochs=2, max_steps=stop)
    if stop >= len(whole.trained):
        return
    run.save_checkpoint(tmp_path / "stop.ckpt")
    rest, _ = fit(tmp_path, cfg, max_epochs=2, ckpt_path=tmp_path / "stop.ckpt")
    assert first.trained + rest.trained == whole.trained


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


# What has no effect


@pytest.mark.parametrize("mode", ["shuffle", "weighted"])
def test_weights_that_the_sampling_does_not_look_at_are_warned_of(cfg, mode):
    cfg["train"]["sampling"] = {"mode": mode}
    cfg["val"]["rules"].append({"weight": {"expr": "score"}})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DatasetRTDataModule(cfg).setup("fit")
    found = [str(one.message).partition(", which does not look at weights")[0] for one in caught]
    train = "cfg: train.rules[1].weight: train is drawn by 'shuffle'"
    val = "cfg: val.rules[1].weight: val is drawn by 'sequential'"
    assert found == ([train, val] if mode == "shuffle" else [val])


def test_weights_of_values_that_do_not_occur_are_warned_of_with_those_that_do(cfg):
    cfg["train"]["rules"] = [{"keep": "label > 0"}, {"weight": {"by": {"label": {0: 2, 1: 3}}}}]
    with pytest.warns(
        UserWarning, match=r"cfg: train\.rules\[1\]\.weight\.by\.label: 0 does not occur \(values: 1, 2\)"
    ):
        DatasetRTDataModule(cfg).setup("fit")


# What is refused


def test_every_mistake_in_a_config_is_reported_at_once_with_its_place(tmp_path, cache):
    path = tmp_path / "bad.yaml"
    path.write_text(
        f"caches: [{cache}]\n"
        "sed: 7\n"
        "rules: [{kep: 'score > 1'}]\n"
        "train:\n"
        "  sampling: {mode: shufle}\n"
        "  loader: {batch_size: 0, wrkers: 2}\n"
        "val:\n"
        "  rules: [{keep: 'a > 1'}, {head: -1}]\n"
    )
    with pytest.raises(ConfigError) as refusal:
        DatasetRTDataModule(path)
    text = str(refusal.value)
    for expected in (
        f"{path}: sed: unknown key, did you mean 'seed'?",
        f"{path}: rules[0]",
        "train.sampling.mode",
        "train.loader.batch_size",
        "train.loader.wrkers: unknown key, did you mean 'workers'?",
        "val.rules[1]",
    ):
        assert expected in text
    assert "Value error" not in text


def test_a_key_that_stands_twice_is_refused_with_both_lines(tmp_path, cache):
    path = tmp_path / "twice.yaml"
    path.write_text(f"caches: [{cache}]\ntrain:\n  loader: {{}}\n  loader: {{batch_size: 2}}\n")
    with pytest.raises(ConfigError, match=f"^{path}: line 4: key 'loader' stands in line 3 already"):
        DatasetRTDataModule(path)


def test_a_stage_or_name_that_does_not_exist_is_refused_with_those_that_do(cfg):
    data = DatasetRTDataModule(cfg)
    with pytest.raises(ValueError, match=r"the stage is 'fitt' but must be one of fit, validate, test, predict"):
        data.setup("fitt")
    data.setup("fit")
    with pytest.raises(ConfigError, match=r"'trian' is not set up \(set up: train, val\)"):
        data.set_sampling("trian", "shuffle")


def test_an_unknown_column_is_reported_with_its_place_and_the_columns(cfg):
    cfg["val"]["rules"].append({"keep": "quality > 0"})
    data = DatasetRTDataModule(cfg)
    with pytest.raises(RuleError, match=r"cfg: val\.rules\[1\].*quality.*label, score"):
        data.setup("fit")


def test_rules_that_leave_nothing_name_the_rule(cfg):
    cfg["train"]["rules"].insert(0, {"keep": "label = 9"})
    with pytest.raises(EmptyPopulationError, match=r"train\.rules\[0\]"):
        DatasetRTDataModule(cfg).setup("fit")


def test_a_stage_without_its_split_is_refused_with_the_splits_there_are(cfg):
    with pytest.raises(ConfigError, match=r"'test'.*splits: train, val"):
        DatasetRTDataModule(cfg).setup("test")


def test_transforms_by_name_resolve_only_inside_allowed_packages(cfg):
    cfg["train"]["loader"]["batch_transform"] = "os.system"
    data = DatasetRTDataModule(cfg)
    data.setup("fit")
    with pytest.raises(ConfigError, match=r"train\.loader\.batch_transform.*'os\.system'.*allow_imports: none"):
        data.train_dataloader()
    cfg["train"]["loader"]["batch_transform"] = "torch.utils.data.default_convert"
    data = DatasetRTDataModule({**cfg, "allow_imports": ["torch.utils"]})
    data.setup("fit")
    assert len(list(data.train_dataloader())) == 5


def test_a_name_that_an_allowed_module_only_imported_is_refused(cfg):
    cfg["train"]["loader"]["batch_transform"] = "torch.utils.data.dataloader.multiprocessing.Process"
    data = DatasetRTDataModule({**cfg, "allow_imports": ["torch.utils"]})
    data.setup("fit")
    with pytest.raises(ConfigError):
        data.train_dataloader()


# A mix of populations


@pytest.fixture
def mixed(cfg):
    cfg["train"] = {
        "mix": {
            "parts": {
                "rare": {"ratio": 1, "rules": [{"keep": "label = 0"}]},
                "common": {"ratio": 3, "rules": [{"keep": "label > 0"}], "sampling": {"mode": "weighted"}},
            },
        },
        "loader": {"batch_size": 8},
    }
    return cfg


def test_every_batch_of_a_mix_has_the_ratio_of_its_parts(tmp_path, mixed):
    model, _ = fit(tmp_path, mixed, max_epochs=2)
    assert len(model.trained) > 2
    assert all(sum(i % 3 == 0 for i in batch) == 2 for batch in model.trained)


def test_a_mix_resumes_exactly(tmp_path, mixed):
    whole, _ = fit(tmp_path, mixed, max_epochs=3)
    for stop in range(1, len(whole.trained)):
        first, run = fit(tmp_path, mixed, max_epochs=3, max_steps=stop)
        run.save_checkpoint(tmp_path / "stop.ckpt")
        rest, _ = fit(tmp_path, mixed, max_epochs=3, ckpt_path=tmp_path / "stop.ckpt")
        assert first.trained + rest.trained == whole.trained, stop


def test_a_part_of_a_mix_may_draw_from_some_caches_and_twice_from_the_same_independently(tmp_path, mixed):
    other = str(numbers(tmp_path, "other", 24))
    mixed["caches"].append(other)
    mixed["train"]["mix"]["parts"] = {
        "first": {"caches": [other]},
        "second": {"caches": [other]},
    }
    data = DatasetRTDataModule(mixed)
    data.setup("fit")
    ids = list(data.train_dataloader())
    first = [i for batch in ids for i in batch["id"].tolist()]
    assert max(first) < 24
    parts = data.datasets["train"].view.stream(8).components
    assert parts[0].positions(0, 0, 0, 18).tolist() != parts[1].positions(0, 0, 0, 18).tolist()


def test_a_mix_with_a_foreign_cache_or_with_sampling_is_refused(mixed):
    mixed["train"]["mix"]["parts"]["rare"]["caches"] = ["elsewhere"]
    with pytest.raises(ConfigError, match=r"train\.mix\.parts\.rare\.caches: 'elsewhere'"):
        DatasetRTDataModule(mixed).setup("fit")
    del mixed["train"]["mix"]["parts"]["rare"]["caches"]
    mixed["train"]["sampling"] = {"mode": "shuffle"}
    with pytest.raises(ConfigError, match="sampling and mix"):
        DatasetRTDataModule(mixed).setup("fit")


def test_samples_of_a_mix_have_their_metadata_and_the_frame_shows_all_rows(mixed):
    data = DatasetRTDataModule(mixed)
    data.setup("fit")
    dataset = data.datasets["train"]
    assert {dataset[0].metadata["label"], dataset[-1].metadata["label"]} <= {0, 1, 2}
    assert len(dataset.get_metadata()) == len(dataset) == 36
    with pytest.raises(ConfigError, match="mix of 2 populations"):
        dataset.update_metadata(dataset.get_metadata())


def test_a_resume_with_another_batch_size_goes_on_with_the_next_sample(tmp_path, cfg):
    whole, _ = fit(tmp_path, cfg, max_epochs=2)
    _, run = fit(tmp_path, cfg, max_steps=3)
    run.save_checkpoint(tmp_path / "three.ckpt")
    cfg["train"]["loader"]["batch_size"] = 8
    rest, _ = fit(tmp_path, cfg, max_epochs=2, ckpt_path=tmp_path / "three.ckpt")
    samples = [i for batch in whole.trained for i in batch]
    assert [i for batch in rest.trained for i in batch] == samples[12:20] + samples[20:36]
    assert [len(batch) for batch in rest.trained] == [8, 8, 8]
