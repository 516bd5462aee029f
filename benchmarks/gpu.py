"""Whether copies run beside the model on a GPU, and how fast they are against the link; a table on the screen.

python -m benchmarks.gpu --data build/bench

The model is a chain of matrix products that takes a little longer than making and copying a batch, and every step waits
for the GPU, as one that logs its loss does: then only a batch that was copied ahead is there in time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.data import IMAGE_BYTES, SIZES, Data, check_images

MIB = 2**20
Span = tuple[float, float]


@dataclass(frozen=True)
class Figures:
    """What was measured, in seconds for one batch.

    Attributes:
        batch_bytes: Of the images of a batch.
        pinned, pageable: Copy of as many bytes from either memory.
        pinning: Copy of a batch into pinned memory.
        loader: A batch on the CPU.
        model: The kernels.
        in_turn: Load, copy, compute, one after the other.
        ahead: The loader with ``device``.
        beside: Which part of the time of copies lay within kernels, on the GPU's own clock.
    """

    batch_bytes: int
    pinned: float
    pageable: float
    pinning: float
    loader: float
    model: float
    in_turn: float
    ahead: float
    beside: float

    def markdown(self) -> str:
        """Return one line each, with the bytes a second that it means."""
        rows = {
            "link: copy from pinned memory": self.pinned,
            "copy from other memory": self.pageable,
            "copy into pinned memory": self.pinning,
            "loader alone": self.loader,
            "model alone": self.model,
            "load, copy, compute in turn": self.in_turn,
            "loader with device": self.ahead,
        }
        lines = ["| | ms a batch | MiB/s | part of the link |", "| --- | --- | --- | --- |"]
        for name, seconds in rows.items():
            speed = self.batch_bytes / MIB / seconds
            lines.append(f"| {name} | {1e3 * seconds:.3f} | {speed:,.0f} | {self.pinned / seconds:.2f} |")
        return "\n".join([*lines, "", f"{self.beside:.0%} of the time of copies lay within kernels"])

    def problems(self) -> list[str]:
        """Return what contradicts that copies run beside the model."""
        found = []
        if self.beside < 0.5:
            found.append(f"only {self.beside:.0%} of the time of copies lay within kernels, not half of it")
        if self.ahead >= self.in_turn:
            found.append(f"{1e3 * self.ahead:.3f} ms a batch ahead is no less than {1e3 * self.in_turn:.3f} in turn")
        return found


def share_within(inner: Iterable[Span], outer: Iterable[Span]) -> float:
    """Return which part of the time of ``inner`` spans lies within ``outer`` ones, which do not overlap."""
    outer = list(outer)
    spans = list(inner)
    within = sum(max(0.0, min(end, stop) - max(begin, start)) for begin, end in spans for start, stop in outer)
    return within / sum(end - begin for begin, end in spans)


def measure(data: Data, store: Path) -> Figures:
    """Return the figures of the present CUDA device."""
    import torch

    from dsrt_lightning import RTLoader
    from dsrt_lightning.loading.device import CudaCopies, map_tensors, one_ahead, pinned

    device = torch.device("cuda", torch.cuda.current_device())

    class TimedCopies(CudaCopies):
        """Notes when copies began and ended on the GPU."""

        def __init__(self) -> None:
            super().__init__(device)
            self.spans: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

        def start(self, batch: Any) -> Any:
            batch = map_tensors(batch, pinned)
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record(self._stream)
            started = super().start(batch)
            ended.record(self._stream)
            self.spans.append((began, ended))
            return started

    dataset = ours.weighted(store, data.size.images)
    rows, fields = data.size.image_batch, ["image", "id"]
    batch_bytes = rows * IMAGE_BYTES
    on_host = torch.zeros(batch_bytes, dtype=torch.uint8)
    on_gpu, locked = on_host.to(device), on_host.pin_memory()
    factor = torch.randn(2048, 2048, device=device, dtype=torch.bfloat16)

    def model(images: torch.Tensor, products: int) -> None:
        mixed = factor + images.view(-1)[:2048].to(factor.dtype)
        for _ in range(products):
            mixed = (mixed @ factor) / 64

    def per_batch(batches: Callable[[], Iterable[Any]], use: Callable[[torch.Tensor], object]) -> float:
        seconds = []
        for _ in range(data.size.passes):
            began, num_batches = time.perf_counter(), 0
            for images, ids in batches():
                check_ids(ids)
                use(images)
                torch.cuda.synchronize()
                num_batches += 1
            seconds.append((time.perf_counter() - began) / num_batches)
        return statistics.median(seconds)

    def check_ids(ids: torch.Tensor) -> None:
        if len(ids) != rows:
            raise ValueError(f"a batch has {len(ids)} rows, not {rows}")

    def seconds_of(act: Callable[[], object]) -> float:
        act()
        times = []
        for _ in range(10):
            torch.cuda.synchronize()
            began = time.perf_counter()
            act()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        return min(times)

    def loader(where: torch.device | None) -> RTLoader:
        return RTLoader(dataset, batch_size=rows, fields=fields, device=where)

    for images, ids in loader(device):
        check_images(images.cpu(), ids.cpu())
    cpu, ahead = loader(None), loader(device)
    copy = seconds_of(lambda: on_gpu.copy_(locked, non_blocking=True))
    pageable = seconds_of(lambda: on_gpu.copy_(on_host))
    pinning = seconds_of(on_host.pin_memory)
    alone = per_batch(lambda: cpu, lambda images: None)
    product = seconds_of(lambda: model(on_gpu, 100)) / 100
    products = max(1, round(1.2 * (copy + pinning + alone) / product))

    copies = TimedCopies()
    kernels: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
    origin = torch.cuda.Event(enable_timing=True)
    origin.record()
    for images, _ in one_ahead(iter(cpu), copies):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        model(images, products)
        ended.record()
        kernels.append((began, ended))
    torch.cuda.synchronize()

    def on_clock(spans: list[tuple[torch.cuda.Event, torch.cuda.Event]]) -> list[Span]:
        return [(origin.elapsed_time(began), origin.elapsed_time(ended)) for began, ended in spans]

    # The first copy has no model to run beside.
    return Figures(
        batch_bytes=batch_bytes,
        pinned=copy,
        pageable=pageable,
        pinning=pinning,
        loader=alone,
        model=seconds_of(lambda: model(on_gpu, products)),
        in_turn=per_batch(lambda: cpu, lambda images: model(images.to(device), products)),
        ahead=per_batch(lambda: ahead, lambda images: model(images, products)),
        beside=share_within(on_clock(copies.spans[1:]), on_clock(kernels)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("build/bench"), help="folder of the stores, 800 MB")
    parser.add_argument("--size", choices=list(SIZES), default="full")
    arguments = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        sys.exit("no GPU: torch.cuda.is_available() is False, so nothing was measured")
    data = Data((arguments.data / arguments.size).absolute(), SIZES[arguments.size])
    figures = measure(data, ours.image_store("arrays")(data))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n\n{figures.markdown()}")
    if problems := figures.problems():
        sys.exit("copies do not run beside the model: " + "; ".join(problems))


if __name__ == "__main__":
    main()
