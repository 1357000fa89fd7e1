"""Gets a C++ compiler where there is none: python -m tests.libtorch.compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from mha_core.libtorch import build

LEAVE_OUT = "MHA_NO_LIBTORCH"


def left_out() -> bool:
    """Whether the tests of the C++ module are left out, by MHA_NO_LIBTORCH=1."""
    return os.environ.get(LEAVE_OUT, "") not in ("", "0")


def install() -> int:
    """Gets it from the system's packages; the exit status."""
    if left_out() or build.missing() is None:
        return 0
    if shutil.which("apt-get"):
        root = [] if os.geteuid() == 0 else ["sudo"]
        for command in (["update", "-qq"], ["install", "-y", "-qq", "g++", "make", "cmake"]):
            print("$", *root, "apt-get", *command, flush=True)
            subprocess.run([*root, "apt-get", *command], check=False)
    reason = build.missing()
    if reason is None:
        return 0
    print(
        f"The C++ module cannot be built: {reason}.\n"
        f"To run every other test: make test {LEAVE_OUT}=1",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(install())
