"""How ``Trainer.fit`` is told to load checkpoints without running code, where the version can be told."""

from __future__ import annotations

import inspect
from typing import Any

import lightning

# Since Lightning 2.6; older versions load a checkpoint's objects too.
SAFELY: dict[str, Any] = (
    {"weights_only": True} if "weights_only" in inspect.signature(lightning.Trainer.fit).parameters else {}
)
