"""Presentation of figures: reports, one HTML page, progress, the machine."""
