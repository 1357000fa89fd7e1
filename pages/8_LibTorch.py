"""LibTorch: the same module in C++, step beside step, built and compared on the run in view."""

from __future__ import annotations

from pages.shared import libtorch_section, look, runs
from pages.shared.page import open_run
from pages.shared.sidebar import sidebar
from pages.shared.step_link import step_link

choice, error, width = open_run("LibTorch")
trace = runs.trace(choice)
panel = libtorch_section.side_by_side(choice, trace)
# What has changed is sent: the browser paints it before the rest comes.
look.let_paint()
libtorch_section.take_home(choice, trace)
step_link("project_q")
libtorch_section.code(choice, trace)
sidebar(choice, error)
# Last: the rest of the page is drawn while it builds.
libtorch_section.measure(panel, choice, trace)
