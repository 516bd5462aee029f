"""Touch a view of a record whose file was truncated after it was read: the one case that no exception covers.

python lost_view.py WORK
"""

from __future__ import annotations

import sys
from pathlib import Path

from vanishing_files import build, cut_off

from dsrt_lightning import open_dataset

if __name__ == "__main__":
    cache = build(Path(sys.argv[1]), "none")
    view = open_dataset(cache, sampling="sequential")[59].data["x"]
    cut_off(cache / "shards/000002.bin")
    print(view.sum())
