"""What pages share: sidebar, cached runs, and the sections of a page."""
