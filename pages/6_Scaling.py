"""Scaling: FLOPs, memory and time as one size grows, in closed form and measured here."""

from __future__ import annotations

from pages.shared import look, runs, scaling_section
from pages.shared.page import open_run
from pages.shared.sidebar import sidebar
from pages.shared.step_link import step_link

choice, error, width = open_run("Scaling")
axis, detail = scaling_section.controls(choice)
panel = scaling_section.costs(choice, axis, detail, width)
trace = runs.trace(choice)
scaling_section.root(choice, trace, width)
# What has changed is sent: the browser paints it before the rest comes.
look.let_paint()
step_link("scale")
scaling_section.export(choice, trace, axis, detail)
scaling_section.code(choice)
sidebar(choice, error)
# Last: the rest of the page is drawn while it measures.
scaling_section.measure(panel, choice, axis)
