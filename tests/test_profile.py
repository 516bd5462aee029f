"""What a loader tells of itself, and what a profile makes of it. No test asserts how long anything takes."""

from __future__ import annotations

import csv
import logging
import pickle
import threading
import time
import warnings

import lightning
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from dsrt_lightning import BatchNode, DatasetRTDataModule, LoaderProfile, RTLoader
from dsrt_lightning.loading.stats import Cost, LoaderStats, Meter
from dsrt_lightning.training.profile import verdict

NAP_S = 0.01
RECORD_BYTES = 14


def nap(sample):
    time.sleep(NAP_S)
    return sample.data


DELIVERIES = {
    "native": {},
    "samples in threads": {"transform": lambda sample: sample.data},
    "arrays in workers": {"workers": 1},
    "samples in workers": {"workers": 1, "transform": nap},
}


# loader.stats()


@pytest.mark.parametrize("kind", DELIVERIES)
def test_every_way_of_delivery_counts_alike(dataset, kind):
    loader = RTLoader(dataset, batch_size=6, **DELIVERIES[kind])
    assert loader.stats() == LoaderStats()
    for _ in loader:
        pass
    stats = loader.stats()
    assert (stats.batches, stats.samples, stats.bytes, stats.skipped) == (8, 48, 48 * RECORD_BYTES, 0)
    assert 0 < stats.wait_s <= stats.elapsed_s
    assert stats.read_s > 0
    assert stats.decode_s > 0
    assert 0 <= stats.queue_depth <= 8


def test_padding_is_no_sample(dataset):
    dataset.update_metadata(dataset.get_metadata().head(47))
    loader = RTLoader(dataset, batch_size=25, drop_last=False, rank=1, world_size=2)
    list(loader)
    assert loader.stats().samples == 23


@pytest.mark.parametrize("options", [{"threads": 4}, {"workers": 1}])
def test_what_transforms_take_is_decoding_wherever_they_run(dataset, options):
    loader = RTLoader(dataset, batch_size=6, transform=nap, **options)
    list(loader)
    assert loader.stats().decode_s >= 48 * NAP_S


def test_what_the_consumer_does_between_batches_is_time_but_no_waiting(dataset):
    loader = RTLoader(dataset, batch_size=6)
    for _ in loader:
        time.sleep(NAP_S)
    stats = loader.stats()
    assert stats.elapsed_s - stats.wait_s >= 7 * NAP_S
    assert stats.wait_fraction == stats.wait_s / stats.elapsed_s
    assert stats.samples_per_s == 48 / stats.elapsed_s


def test_the_difference_of_two_moments_is_what_happened_between(dataset):
    loader = RTLoader(dataset, batch_size=6)
    list(loader)
    first = loader.stats()
    list(loader)
    second = loader.stats()
    assert (second - first).samples == 48
    assert ((second - first) + first).samples == second.samples == 96


def test_counting_goes_on_over_passes_that_are_left_half_way(dataset):
    loader = RTLoader(dataset, batch_size=6)
    for _ in range(3):
        next(iter(loader))
    assert loader.stats().batches == 3


def test_a_node_counts_in_its_loader(dataset):
    node = BatchNode(RTLoader(dataset, batch_size=6))
    assert len(list(node)) == node.loader.stats().batches == 8


def metered(finished_at):
    """Return the stats after batches that were finished at these moments, relative to each request."""
    meter = Meter()
    made = (("batch", Cost(1, 1, 0.0, 0.0, time.monotonic() + moment, ())) for moment in finished_at)
    assert list(meter(made)) == ["batch"] * len(finished_at)
    return meter.stats()


def test_the_queue_is_deep_where_batches_were_finished_before_they_were_asked_for():
    hour = 3600.0
    assert metered([hour] * 4).queue_depth == 0  # none was ready
    assert metered([-hour] * 4).ready == 1 + 2 + 3 + 4  # all were ready from the start: 4, 3, 2, 1


def test_costs_are_small_messages():
    cost = Cost(1024, 1 << 20, 0.1, 0.1, 1e6, ())
    assert len(pickle.dumps(cost)) < 150
    assert pickle.loads(pickle.dumps(cost)) == cost


def test_the_stats_of_no_batch_are_zeros():
    stats = LoaderStats()
    assert (stats.wait_fraction, stats.samples_per_s, stats.bytes_per_s, stats.queue_depth) == (0, 0, 0, 0)


def test_stats_may_be_asked_for_by_another_thread_while_batches_arrive(dataset):
    loader = RTLoader(dataset, batch_size=6)
    seen = []
    for _ in loader:
        thread = threading.Thread(target=lambda: seen.append(loader.stats().batches))
        thread.start()
        thread.join()
    assert seen == list(range(1, 9))


# The sentence


def test_a_model_that_hardly_waits_is_the_bottleneck():
    stats = LoaderStats(batches=9, elapsed_s=100.0, wait_s=3.0)
    assert verdict(stats) == "the model waited 3 % of the time for data: the model is the bottleneck"


@pytest.mark.parametrize(
    ("read_s", "decode_s", "advice"),
    [
        (2.5, 60.0, "make the transform cheaper, or raise workers"),
        (60.0, 2.5, "raise threads, or workers if there are"),
    ],
)
def test_a_loader_that_is_waited_for_is_the_bottleneck_and_the_larger_part_decides(read_s, decode_s, advice):
    text = verdict(LoaderStats(batches=9, elapsed_s=100.0, wait_s=64.0, read_s=read_s, decode_s=decode_s))
    assert text.startswith("the model waited 64 % of the time for data: the loader is the bottleneck; over all threads")
    assert f"reading took {read_s:.3g} s, decoding {decode_s:.3g} s: {advice}" in text


# The callback


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, batch_idx):
        return self.weight.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(tmp_path, profile, *, logger=False, loaders=None, datamodule=None, **options):
    trainer = lightning.Trainer(
        default_root_dir=tmp_path,
        accelerator="cpu",
        logger=logger,
        callbacks=[profile],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"max_epochs": 1, **options},
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)  # Lightning's own, of torch
        warnings.filterwarnings("ignore", ".*does not have many workers|.*logging interval|.*no `validation_step`")
        trainer.fit(Model(), train_dataloaders=loaders, datamodule=datamodule)


def test_entries_come_every_n_steps_and_only_our_own_names_are_logged(tmp_path, dataset):
    fit(tmp_path, LoaderProfile(3), logger=CSVLogger(tmp_path, version=0), loaders=RTLoader(dataset, batch_size=6))
    with (tmp_path / "lightning_logs/version_0/metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["3", "6"]
    names = ("wait_fraction", "samples_per_s", "bytes_per_s", "queue_depth", "read_s", "decode_s")
    assert {name for name in rows[0] if name != "step"} >= {f"loader/{name}" for name in names}
    assert all(0 <= float(row["loader/wait_fraction"]) <= 1 for row in rows)
    assert all(float(row["loader/samples_per_s"]) > 0 for row in rows)


def test_without_a_logger_the_sentence_comes_all_the_same(tmp_path, dataset, monkeypatch):
    said = []
    monkeypatch.setattr("dsrt_lightning.training.profile.rank_zero_info", said.append)
    profile = LoaderProfile(1)
    fit(tmp_path, profile, loaders=RTLoader(dataset, batch_size=6))
    assert said == [verdict(profile.stats)]


def test_a_fit_counts_from_its_own_beginning_also_where_loaders_are_made_anew(tmp_path, numbers_cache):
    train = {"sampling": {"mode": "shuffle"}, "loader": {"batch_size": 6}}
    data = DatasetRTDataModule({"caches": [numbers_cache], "train": train})
    profile = LoaderProfile()
    fit(tmp_path, profile, datamodule=data, max_epochs=3, reload_dataloaders_every_n_epochs=1)
    assert profile.stats.samples == 3 * 48
    fit(tmp_path, profile, datamodule=data)
    assert profile.stats.samples == 48


def test_several_loaders_are_profiled_together(tmp_path, numbers_cache):
    sets = {"a": {"loader": {"batch_size": 6}}, "b": {"loader": {"batch_size": 3}}}
    train = {"sampling": {"mode": "shuffle"}, "sets": sets, "combine": "min_size"}
    profile = LoaderProfile()
    fit(tmp_path, profile, datamodule=DatasetRTDataModule({"caches": [numbers_cache], "train": train}))
    assert profile.stats.samples >= 48 + 24
    assert 0 <= profile.stats.wait_fraction <= 1


def test_other_loaders_are_told_apart_and_left_alone(tmp_path, caplog):
    foreign = torch.utils.data.DataLoader(torch.zeros(6, 1), batch_size=2)
    with pytest.warns(UserWarning, match="no training loader is an RTLoader"), caplog.at_level(logging.INFO):
        fit(tmp_path, LoaderProfile(1), loaders=foreign)
    assert "bottleneck" not in caplog.text


def test_a_number_of_steps_below_one_is_refused():
    with pytest.raises(ValueError, match="every_n_steps is 0 but must be at least 1"):
        LoaderProfile(0)
