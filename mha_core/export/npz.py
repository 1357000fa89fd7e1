"""NumPy's NPZ: exact tensors, read with `numpy.load(path)`, pickle not needed."""

from __future__ import annotations

import json
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from mha_core.export.metadata import describe, tensor_key
from mha_core.export.selection import Job


def write(file: IO[bytes], job: Job) -> None:
    """One array a tensor, plus `metadata` (JSON, 0-d text) and, where given, `tokens`.

    NumPy has no bfloat16: those tensors are stored as float32, which holds each of their
    values exactly, and the metadata says so.
    """
    stored: dict[str, str] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for place, (name, step) in enumerate(job.tensors.items()):
        job.report(place / (len(job.tensors) + 1), name)
        tensor = job.tensor(step)
        if tensor.dtype is torch.bfloat16:
            tensor = tensor.float()
            stored[name] = "float32"
        arrays[tensor_key(name)] = tensor.numpy()
    if job.tokens is not None:
        arrays["tokens"] = np.array(job.tokens, dtype=np.str_)
    arrays["metadata"] = np.array(json.dumps(describe(job, stored=stored), allow_nan=False))
    job.report(len(job.tensors) / (len(job.tensors) + 1), "writing")
    np.savez(file, allow_pickle=False, **arrays)
    job.report(1.0, "npz")
