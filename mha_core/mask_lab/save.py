"""A mask as NPY, NPZ and JSON, and tables as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from mha_core.errors import ConfigError
from mha_core.mask_lab import build
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.forms import FORMS, convert

KINDS = {"npy": "application/octet-stream", "npz": "application/x-npz", "json": "application/json"}


def mask_file(spec: MaskSpec, kind: str, *, dtype: torch.dtype = torch.float32) -> bytes:
    """The mask as a file.

    Args:
        spec: what it is made of.
        kind: "npy", the boolean keep mask alone; "npz", every form of it, pattern, padding and the
            parts it was made from; "json", the parts and the mask as rows of 1 (may attend) and 0.
        dtype: of the additive forms; bfloat16, which NumPy lacks, is stored as float32.

    Raises:
        ConfigError: no such kind.
    """
    if kind not in KINDS:
        raise ConfigError("format", kind, "is not offered", works=", ".join(KINDS))
    keep = build.keep(spec)
    if kind == "json":
        said = {
            "meaning": FORMS["attention_mask"].meaning,
            "axes": ["Tq", "Tk"] if keep.dim() == 2 else ["batch", "1", "Tq", "Tk"],
            "shape": list(keep.shape),
            "parts": spec.to_dict(),
            "mask": keep.int().tolist(),
        }
        return json.dumps(said, allow_nan=False).encode()
    out = io.BytesIO()
    if kind == "npy":
        np.save(out, keep.numpy(), allow_pickle=False)
        return out.getvalue()
    arrays: dict[str, Any] = {}
    for form in FORMS:
        made = convert(keep, "keep", form, dtype=dtype)
        arrays[form] = (made.float() if made.dtype is torch.bfloat16 else made).numpy()
    arrays["pattern"] = build.pattern(spec).numpy()
    padding = build.padding(spec)
    if padding is not None:
        arrays["padding"] = padding.numpy()
    arrays["parts"] = np.array(json.dumps(spec.to_dict(), allow_nan=False))
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return out.getvalue()


def file_stem(spec: MaskSpec) -> str:
    """What the file is called: the parts, e.g. "mask_6x6_causal_window3"."""
    parts = [f"mask_{spec.time_q}x{spec.time_k}"]
    parts += ["prefix" + str(spec.prefix)] if spec.prefix else ["causal"] if spec.causal else []
    parts += [f"window{spec.window}"] if spec.window else []
    parts += ["blocks"] if spec.blocks else []
    parts += ["padding"] if spec.lengths else []
    parts += ["drawn"] if spec.drawn else []
    return "_".join(parts)


def table_csv(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as UTF-8 CSV: exact numbers, None as an empty field, tuples as shapes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    for row in rows:
        writer.writerow(["" if value is None else value for value in row])
    return out.getvalue().encode()
