"""LightningCLI that takes a dataset's YAML file as it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI

from dsrt_lightning.training.datamodule import DatasetRTDataModule
from dsrt_lightning.training.yaml_file import read_yaml


class DatasetRTCLI(LightningCLI):
    """``python train.py fit --config experiment.yaml --data.cfg.train.loader.batch_size 32``.

    A ``--config`` file that has ``caches`` at its top is an experiment's data and is read as ``--data.cfg``; any other
    is LightningCLI's own. Both may be given, and single keys overridden behind them.

    Args:
        model_class: The LightningModule, as for LightningCLI.
        datamodule_class: A datamodule that takes ``cfg``.
        **kwargs: LightningCLI's.
    """

    def __init__(self, model_class: Any = None, datamodule_class: Any = DatasetRTDataModule, **kwargs: Any) -> None:
        super().__init__(model_class, datamodule_class, **kwargs)

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse the command line, dataset files read as ``--data.cfg``."""
        listed = sys.argv[1:] if args is None else args
        super().parse_arguments(parser, _route_dataset_files(listed) if isinstance(listed, Sequence) else listed)


def _route_dataset_files(arguments: Sequence[str]) -> list[str]:
    routed: list[str] = []
    pending = False
    for argument in arguments:
        if pending and _is_dataset_file(argument):
            routed[-1] = "--data.cfg"
        option, _, value = argument.partition("=")
        if option in ("--config", "-c") and value and _is_dataset_file(value):
            argument = f"--data.cfg={value}"
        pending = argument in ("--config", "-c")
        routed.append(argument)
    return routed


def _is_dataset_file(name: str) -> bool:
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    content = read_yaml(path)
    return isinstance(content, dict) and "caches" in content and not content.keys() & {"model", "data", "trainer"}
