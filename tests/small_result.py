"""A small result with every part that a folder holds."""

import numpy as np

from bqrl.results.result import Control, Result, ResultTable, Sentence


def make(value: float, tables: int = 2, files: int = 1) -> Result:
    rows = [{"state": '=a, "b"\n', "value": value + i, "n": i, "met": i > 0, "empty": None} for i in range(3)]
    return Result(
        kind="plan",
        title=f"value {value}",
        settings={"tau": 0.1, "gap": np.inf, "start": np.int64(3)},
        tables={
            f"table_{i}": ResultTable(rows, titles={"value": "Value (€)"}, caption="caption") for i in range(tables)
        },
        charts={"law": {"mark": "bar", "data": {"values": [{"x": value}]}}},
        sentences=["always", Sentence("at 0.1", when={"tau": 0.1})],
        choices=[Control(name="tau", title="Level", values=[0.1, 0.2], labels=["10 %", "20 %"], start=1)],
        details={"value": value},
        files={f"policy_{i}.npz": bytes([i, int(value)]) for i in range(files)},
    )
