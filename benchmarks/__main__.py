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

from benchmarks import (
    blockwise,
    lab_update,
    libtorch,
    long_update,
    page_update,
    peers,
    real_models,
    trace_overhead,
)


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
        "C++ against Python": libtorch.measure(),
        "block-wise maps": blockwise.measure(),
        "one update of the page": page_update.measure(),
        "one update of the laboratory": lab_update.measure(),
        "real models": real_models.measure(),
        "maps against peers": peers.measure(),
        "long maps, an update": long_update.measure(),
    }
    out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    trace = results["recording a trace"]
    print(
        f"\nRecording a trace at (2, 512, 512), h 8: {trace['plain ms']} ms plain, "
        f"{trace['traced ms']} ms traced, ratio {trace['ratio']} (limit 1.05)\n"
    )
    rows = [
        [name, view["bare ms"], view["ours ms"], view["ratio"], view["limit"], view["bytes"]]
        for of in ("one update of the page", "one update of the laboratory")
        for name, view in results[of].items()
    ]
    titles = ["update", "bare ms", "ours ms", "ratio", "limit", "bytes"]
    print(tabulate(rows, titles, tablefmt="github", intfmt=","))
    names = ["C++ ms", "Python ms", "ratio"]
    _print(_picked(results["C++ against Python"], *names), ["a forward", *names])
    _print_real(results["real models"])
    _print_peers(results["maps against peers"])
    _print_long(results["block-wise maps"], results["long maps, an update"])
    print(f"\n{out}")


def _print_real(found: dict[str, Any]) -> None:
    """The tables of real models."""
    maps = [
        [tokens, label, view["ms"], view["bytes"]]
        for tokens, views in found["sentence to maps"].items()
        for label, view in views.items()
    ]
    loads = [[label, times["s"]] for label, times in found["first load"].items()]
    servers = [
        [tokens, *(figure for figure in figures.values() if not isinstance(figure, list))]
        for tokens, figures in found["fresh server"].items()
    ]
    for rows, titles in (
        (maps, ["sentence to maps", "of", "ms", "bytes"]),
        (loads, ["first load, a fresh process", "s"]),
        (
            servers,
            ["fresh server", "first page s", "next page s", "one session MB", "a further one MB"],
        ),
    ):
        _print(rows, titles)


def _picked(views: dict[str, Any], *names: str) -> list[list[Any]]:
    """A row for every view: its label, and what of it is named."""
    return [[label, *(view[name] for name in names)] for label, view in views.items()]


def _print(rows: list[list[Any]], titles: list[str]) -> None:
    print()
    print(tabulate(rows, titles, tablefmt="github", intfmt=","))


def _print_peers(found: dict[str, Any]) -> None:
    """Bytes and milliseconds of the same maps, ours and the peers'."""
    sizes = {name: views for name, views in found.items() if name != "versions"}
    rows = [
        [tokens, label, view["bytes"], view.get("ms", view.get("problems"))]
        for tokens, views in sizes.items()
        for label, view in views.items()
        if isinstance(view, dict)
    ]
    _print(rows, ["maps of", "by", "bytes", "ms"])
    names = ["smallest / ours", "smallest, script apart / ours", "at least"]
    _print(_picked(sizes, *names), ["maps of", *names])


def _print_long(found: dict[str, Any], updates: dict[str, Any]) -> None:
    """Block-wise maps, and the page that shows them."""
    against, alone = found.values()
    at, beyond = found
    rows = [
        [label, way, view["s"][way], view["peak MB"].get(way)]
        for label, view in against.items()
        for way in view["s"]
    ]
    _print(rows, [at, "way", "s", "peak MB"])
    names = ["faster", "faster, at least", "memory", "memory, at most"]
    _print(_picked(against, *names), [at, *names])
    names = ["s", "peak MB", "peak MB, at most", "GFLOP/s", "matmul GFLOP/s", "share"]
    _print(_picked(alone, *names), [beyond, *names])
    names = ["ms", "slower", "slower, at most", "bytes", "bytes ratio", "bytes, within"]
    _print(_picked(updates, *names), ["update", *names])


if __name__ == "__main__":
    main()
