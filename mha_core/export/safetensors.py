"""safetensors: exact tensors in their own dtype, read with `safetensors.torch.load_file`."""

from __future__ import annotations

import json
from typing import IO

from safetensors.torch import save

from mha_core.export.metadata import describe, tensor_key
from mha_core.export.selection import Job


def write(file: IO[bytes], job: Job) -> None:
    """One tensor each, plus the configuration and tokens as JSON under the header's "mha"."""
    tensors = {}
    for place, (name, step) in enumerate(job.tensors.items()):
        job.report(place / (len(job.tensors) + 1), name)
        tensors[tensor_key(name)] = job.tensor(step)
    # One key alone: the header's order of several is not fixed, and equal runs give equal bytes.
    file.write(save(tensors, {"mha": json.dumps(describe(job), allow_nan=False)}))
    job.report(1.0, "safetensors")
