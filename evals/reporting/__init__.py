"""How figures are written down: reports, one HTML page, progress, the machine."""
