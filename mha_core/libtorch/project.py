"""A CMake project in a ZIP: the C++ module, the weights and input of a run, and its own check."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import torch
from safetensors.torch import save

from mha_core.config import MHAConfig
from mha_core.libtorch.build import SOURCES
from mha_core.libtorch.case import TOLERANCE, State, case_of, check_bytes, run_case
from mha_core.trace import Trace

LIMIT = 2**27  # bytes of the tensors in it
NAME = "multi_head_attention"
_SCALARS = {
    "float64": "torch::kFloat64", "float16": "torch::kHalf", "bfloat16": "torch::kBFloat16",
}  # fmt: skip
_DATE = (2020, 1, 1, 0, 0, 0)  # always: the same run gives the same file

_PARITY = """\
# What the C++ module makes of case.safetensors, against what Python made of it. A step may differ
# by this share of its largest value: other machines sum in other orders.
set(TOLERANCE {tolerance} CACHE STRING "share of a step's largest value")
enable_testing()
add_test(NAME parity
  COMMAND mha_libtorch check case.safetensors expected.safetensors --tolerance ${{TOLERANCE}}
  WORKING_DIRECTORY ${{CMAKE_CURRENT_SOURCE_DIR}})
"""

_README = """\
# Multi-head attention in LibTorch

{run}

```bash
cmake -S . -B build        # with the torch of `python`; else -DCMAKE_PREFIX_PATH=/path/to/libtorch
cmake --build build --parallel 2
ctest --test-dir build --output-on-failure
```

The test runs the module on `case.safetensors` (weights and input) and holds every step against
`expected.safetensors`, what Python gave with torch {torch}. A step may differ by {tolerance:g} of
its largest value ({dtype}); `cmake -B build -DTOLERANCE=0` asks for every bit, which holds where
kernels and threads are the same. To see each step's difference, or to run an input of yours:

```bash
build/mha_libtorch check case.safetensors expected.safetensors
build/mha_libtorch run case.safetensors input.safetensors output.safetensors {options}
```

`input.safetensors` holds `x`, (batch, time, {d_model}). In a program of yours link the target
`multi_head_attention`:

```cpp
#include "multi_head_attention.h"

{code}
```
"""


def usage(config: MHAConfig, *, mask: bool = False) -> str:
    """The module of a configuration in C++, made and called."""
    options = "".join(
        f".{name}({value})"
        for name, value in (
            ("bias", "" if config.bias else "false"),
            ("dropout", config.dropout or ""),
            ("scale", "" if config.scale is None else config.scale),
            ("fill", "" if config.fill == float("-inf") else config.fill),
            ("dtype", "" if config.dtype == "float32" else _SCALARS[config.dtype]),
        )
        if value != ""
    )
    call = "".join([".causal(true)" if config.causal else "", ".mask(keep)" if mask else ""])
    forward = f", mha::MultiHeadAttentionForwardOptions(){call}" if call else ""
    lines = [
        f"mha::MultiHeadAttention attention(mha::MultiHeadAttentionOptions("
        f"{config.d_model}, {config.heads}){options});",
        f"const auto y = attention(x{forward});"
        f"  // ({config.batch}, {config.time}, {config.d_model}), as x",
    ]
    return "\n".join(lines)


def project_bytes(trace: Trace) -> int:
    """Bytes of the tensors in the project.

    Raises:
        ConfigError: they are more than LIMIT.
    """
    return check_bytes(trace, LIMIT)


def project(trace: Trace) -> bytes:
    """The ZIP.

    Raises:
        ConfigError: its tensors are more than LIMIT.
    """
    check_bytes(trace, LIMIT)
    case = case_of(trace)
    expected = run_case(case)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _files(trace, case, expected):
            entry = zipfile.ZipInfo(f"{NAME}/{name}", _DATE)
            entry.external_attr = 0o644 << 16
            # Random numbers do not get smaller.
            packed = zipfile.ZIP_STORED if name.endswith(".safetensors") else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, packed)
    return data.getvalue()


def _files(trace: Trace, case: State, expected: State) -> Iterator[tuple[str, bytes]]:
    config = trace.config
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in (".h", ".cpp") or path.name == "CMakeLists.txt":
            yield path.name, path.read_bytes()
    tolerance = TOLERANCE[config.torch_dtype]
    yield "parity.cmake", _PARITY.format(tolerance=tolerance).encode()
    options = f"--heads {config.heads}" + (" --causal" if config.causal else "")
    options += "" if config.scale is None else f" --scale {config.scale}"
    options += "" if config.fill == float("-inf") else f" --fill {config.fill}"
    run = (
        f"d_model {config.d_model}, {config.heads} heads, on an input of batch {config.batch} and "
        f"time {config.time}{', causal' if config.causal else ''}, {config.dtype}."
    )
    text = _README.format(
        run=run, torch=str(torch.__version__).split("+")[0], tolerance=tolerance,
        dtype=config.dtype, options=options, d_model=config.d_model,
        code=usage(config, mask=trace.mask is not None),
    )  # fmt: skip
    yield "README.md", text.encode()
    yield "case.safetensors", save(case)
    yield "expected.safetensors", save(expected)
