"""The home page: the real forward of multi-head attention, its shapes, its flow, its heads."""

from __future__ import annotations

from pages.shared.choice import Given
from pages.shared.given_section import given_section
from pages.shared.page import open_page
from pages.shared.pipeline import pipeline

page = open_page()
if isinstance(page.choice, Given):
    given_section(page.choice, page.error)
else:
    pipeline(page.choice, page.error, page.width)
