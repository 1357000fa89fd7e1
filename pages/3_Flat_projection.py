"""One flat projection: one (d_model, d_model) matrix for all heads, against one matrix a head."""

from __future__ import annotations

from pages.shared import flat_section, look, runs
from pages.shared.page import open_run
from pages.shared.sidebar import sidebar
from pages.shared.step_link import step_link

choice, error, width = open_run("One flat projection")
trace = runs.trace(choice)
flat_section.intro(choice)
flat_section.matrices(choice, trace)
facts = flat_section.facts(choice, trace)
panel = flat_section.times(choice, width)
# What has changed is sent: the browser paints it before the rest comes.
look.let_paint()
step_link("project_q")
flat_section.export(choice, facts)
flat_section.code(choice)
sidebar(choice, error)
# Last: the rest of the page is drawn while it measures.
flat_section.measure(panel, choice, trace)
