"""Flatness of memory, handles, threads, disk and latency over a hundred thousand turns, with faults in between."""
