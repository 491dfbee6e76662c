from __future__ import annotations
from pathlib import Path
from rtclab.sweeps.store import Store
import polars as pl


class Grid:
    def __init__(self, path: str | Path) -> None:
        self._store = Store(Path(path))
        self.path = Path(path)

    def metrics(self):
        return self._store.rows().collect()
