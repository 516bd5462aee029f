"""Several loaders of a split, and a mix of populations in one."""

from __future__ import annotations

import pytest
from cache_builders import numbers
from fitting import fit

from dsrt_lightning import DatasetRTDataModule
from dsrt_lightning.errors import ConfigError

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
