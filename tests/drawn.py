"""What a dataset draws, without a loader, and a transform that draws too."""

from __future__ import annotations


def drawn_ids(dataset, epoch=0, pass_=0):
    """Return the record numbers that a pass draws, one by one."""
    stream = dataset.view.stream(global_batch=1)
    return dataset.view.records.rows(stream.positions(epoch, pass_, 0, stream.epoch_length)).tolist()


def flat(batches):
    """Return the items of all batches."""
    return [i for batch in batches for i in batch]


def draw_noise(sample, rng):
    """Return the sample's number and a random one of its own."""
    return {"id": sample.data["id"], "noise": rng.random()}
