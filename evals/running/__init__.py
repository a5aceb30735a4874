"""Runs of sets: arms of recall, whole worlds, A/B, the gate, and their parts."""
