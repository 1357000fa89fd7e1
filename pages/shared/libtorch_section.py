"""The C++ module beside the Python one: its lines, its numbers, and a project to take home."""

from __future__ import annotations

from functools import partial

import streamlit as st
import torch

from mha_core import Trace
from mha_core.errors import ConfigError, human_bytes
from mha_core.export.metadata import file_name
from mha_core.figures import libtorch_html
from mha_core.layouts import to_bytes, write
from mha_core.libtorch import build, compare, project
from mha_core.libtorch.build import SOURCES
from mha_core.libtorch.compare import Difference
from mha_core.libtorch.lines import cpp_lines, python_lines
from pages.shared import look, measured
from pages.shared.choice import Choice
from pages.shared.measured import Panel

NAME = "libtorch"
_BYTES = "application/octet-stream"
_FILES = ("multi_head_attention.h", "multi_head_attention.cpp", "masks.cpp", "CMakeLists.txt")


def side_by_side(choice: Choice, trace: Trace) -> Panel | None:
    """The button that compares, what came of it, and the lines of every step."""
    look.section("C++ beside Python", "the lines that run, read from both sources")
    panel = _panel(choice)
    differences = _differences(choice)
    if differences:
        words = libtorch_html.verdict(differences, torch.get_num_threads())
        st.html(look.block(f'<p class="fp-say lt-verdict">{words}</p>'))
    st.html(
        look.block(
            libtorch_html.side_by_side(
                trace.steps, python_lines(), cpp_lines(), differences, look.colours()
            )
        )
    )
    return panel


def _differences(choice: Choice) -> list[Difference]:
    kept = measured.kept(choice, NAME)
    return kept.results if kept is not None and kept.done else []


def _panel(choice: Choice) -> Panel | None:
    """None where nothing can be built here."""
    missing = None if build.built() else build.missing()
    if missing is not None:
        st.info(
            f"C++ cannot be built here: {missing}. The project below builds where it can.",
            icon=":material/info:",
        )
        return None
    return measured.panel(choice, NAME, "Build and compare", icon="build")


def measure(panel: Panel | None, choice: Choice, trace: Trace) -> None:
    """Builds and compares, if the button was pressed."""
    if panel is not None:
        measured.run(panel, choice, lambda report: compare.compare(trace, report))


def take_home(choice: Choice, trace: Trace) -> None:
    """The project and the weights as files."""
    look.section("Take it home", "a CMake project that checks itself, with this run inside")
    config = choice.config
    try:
        size = project.project_bytes(trace)
    except ConfigError as error:
        st.error(look.safe(str(error)), icon=":material/error:")
        size = 0
    with st.container(horizontal=True, key="lt_files"):
        if size:
            name = file_name(config, "libtorch_project", "zip", tokens=choice.tokens)
            st.download_button(
                f"CMake project, {human_bytes(size)} of tensors", partial(project.project, trace),
                file_name=name, mime="application/zip", key="lt_project", on_click="ignore",
                type="primary", icon=":material/folder_zip:",
            )  # fmt: skip
        for form in ("safetensors", "pt"):
            st.download_button(
                f"Weights, .{form}", partial(_weights, trace, form),
                file_name=file_name(config, "weights", form, tokens=choice.tokens), mime=_BYTES,
                key=f"lt_weights_{form}", on_click="ignore", icon=":material/download:",
            )  # fmt: skip
        differences = _differences(choice)
        if differences:
            st.download_button(
                "Differences, CSV", compare.csv(differences),
                file_name=file_name(config, "cpp_differences", "csv", tokens=choice.tokens),
                mime="text/csv", key="lt_differences", on_click="ignore",
                icon=":material/download:",
            )  # fmt: skip
    st.code(
        f"unzip {file_name(config, 'libtorch_project', 'zip', tokens=choice.tokens)}\n"
        f"cd {project.NAME}\n"
        "cmake -S . -B build\n"
        "cmake --build build --parallel 2\n"
        "ctest --test-dir build --output-on-failure",
        language="bash",
        wrap_lines=True,
    )
    st.caption(
        "It needs a C++17 compiler, CMake and a LibTorch, the one inside pip’s torch or another "
        "(`-DCMAKE_PREFIX_PATH`). Weights travel back too: `mha_libtorch weights seeded.pt` "
        "writes a file that the source “your weights” reads."
    )


def _weights(trace: Trace, form: str) -> bytes:
    return to_bytes(write(trace.module, "mha_core"), form)


def code(choice: Choice, trace: Trace) -> None:
    """The use of the module in C++, and its files, closed until opened."""
    panel = st.expander("Code: the C++ module", key="w_code", on_change="rerun",
                        icon=":material/code:")  # fmt: skip
    if not panel.open:
        return
    with panel:
        st.code(project.usage(choice.config, mask=trace.mask is not None), language="cpp")
        name = st.segmented_control(
            "file", _FILES, key="w_lt_file", default=_FILES[0], required=True,
            label_visibility="collapsed",
        )  # fmt: skip
        text = (SOURCES / (name or _FILES[0])).read_text(encoding="utf-8")
        st.code(text, language="cmake" if name == "CMakeLists.txt" else "cpp")
