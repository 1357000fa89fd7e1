"""Every figure of benchmarks/README.md, in one run: python -m benchmarks [--out FILE]."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import plotly
import streamlit
import torch
from tabulate import tabulate

from benchmarks import page_update, trace_overhead


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads of torch": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "streamlit": streamlit.__version__,
        "plotly": plotly.__version__,
        "load before": round(os.getloadavg()[0], 2),
    }


def main() -> None:
    """Measures, prints a table, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results.json"))
    out: Path = parser.parse_args().out
    results = {
        "machine": machine(),
        "recording a trace": trace_overhead.measure(),
        "one update of the page": page_update.measure(),
    }
    out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    trace = results["recording a trace"]
    print(
        f"\nRecording a trace at (2, 512, 512), h 8: {trace['plain ms']} ms plain, "
        f"{trace['traced ms']} ms traced, ratio {trace['ratio']} (limit 1.05)\n"
    )
    rows = [
        [name, view["bare ms"], view["ours ms"], view["ratio"], view["limit"], view["bytes"]]
        for name, view in results["one update of the page"].items()
    ]
    titles = ["update", "bare ms", "ours ms", "ratio", "limit", "bytes"]
    print(tabulate(rows, titles, tablefmt="github", intfmt=","))
    print(f"\n{out}")


if __name__ == "__main__":
    main()
