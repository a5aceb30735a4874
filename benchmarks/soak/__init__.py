"""What stays flat over a hundred thousand turns: memory, handles, threads, disk and latency, with faults in between."""
