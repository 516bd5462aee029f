"""What a configuration asks for in vain is warned of; what it gets wrong is refused."""

from __future__ import annotations

import warnings

import pytest

from dsrt_lightning import DatasetRTDataModule
from dsrt_lightning.errors import ConfigError, EmptyPopulationError, RuleError

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


def test_every_mistake_in_a_config_is_reported_at_once_with_its_place(tmp_path, numbers_cache):
    path = tmp_path / "bad.yaml"
    path.write_text(
        f"caches: [{numbers_cache}]\n"
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


def test_a_key_that_stands_twice_is_refused_with_both_lines(tmp_path, numbers_cache):
    path = tmp_path / "twice.yaml"
    path.write_text(f"caches: [{numbers_cache}]\ntrain:\n  loader: {{}}\n  loader: {{batch_size: 2}}\n")
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
