"""Long-form CSV: one row a cell, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import IO

import torch
from torch import Tensor

from mha_core.export.labels import labels, neutral
from mha_core.export.selection import Job

HEADER = "tensor,batch,head,query,key,query_token,key_token,value,masked"
_BEFORE_MASK = ("scores", "scale")
# Rows formatted at a time: text costs some fifty times its number, so not a whole map at once.
_CHUNK = 1 << 16


def write(file: IO[bytes], job: Job) -> None:
    """Writes `HEADER` and a row a cell, UTF-8, lines ended by a line feed.

    A value has the fewest digits that read back to the same number in its dtype (bfloat16 and
    float16 in float32); masked scores are -inf, and `masked` is true for every cell that a mask
    hides. Labels that a spreadsheet would run as a formula start with an apostrophe.
    """
    count = job.selection.map_count(job.config) * job.config.time**2
    file.write(f"{HEADER}\n".encode())
    fields = token_fields(job.tokens, job.config.time)
    done = 0
    for name, step in job.maps.items():
        tensor = job.trace.tensor(step).detach()
        hidden = _hidden(job, step)
        for item in job.items:
            for head in job.heads:
                job.report(done / count, f"{name}, batch item {item}, head {head}")
                cells = None if hidden is None else hidden[item, head].cpu()
                _write_map(file, f"{name},{item},{head}", tensor[item, head].cpu(), cells, fields)
                done += job.config.time**2
    job.report(1.0, f"{count:,} rows")


def token_fields(tokens: Sequence[str] | None, time: int) -> list[str]:
    """One CSV field a position: the label, safe for a spreadsheet and quoted where it must be."""
    if tokens is None:
        return [""] * time
    shown = zip(tokens, labels(tokens), strict=True)
    return [_quoted(neutral(token, label)) for token, label in shown]


def _quoted(text: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([text])
    return line.getvalue()


def _hidden(job: Job, step: str) -> Tensor | None:
    """Boolean (batch, h, time, time), expanded but not copied: True where a mask hides the key."""
    if job.trace.visible is None or step in _BEFORE_MASK:
        return None
    return (~job.trace.visible).broadcast_to(job.trace[step].shape)


def _write_map(
    file: IO[bytes], prefix: str, values: Tensor, hidden: Tensor | None, fields: list[str]
) -> None:
    """One head's (time, time) map, a block of queries at a time."""
    if values.dtype in (torch.bfloat16, torch.float16):
        values = values.float()
    time = len(fields)
    block = max(1, _CHUNK // time)
    keys = list(enumerate(fields))
    unmasked = ["false"] * time
    for start in range(0, time, block):
        # As NumPy prints: the shortest text that reads back to the same number.
        texts = values[start : start + block].numpy().astype(str).tolist()
        lines = []
        for offset, row in enumerate(texts):
            query = start + offset
            flags = unmasked
            if hidden is not None:
                flags = ["true" if cell else "false" for cell in hidden[query].tolist()]
            lines += [
                f"{prefix},{query},{key},{fields[query]},{field},{value},{flag}\n"
                for (key, field), value, flag in zip(keys, row, flags, strict=True)
            ]
        file.write("".join(lines).encode())
