"""Decides what a turn is about, by rules (tier 0) and, if the rules are not confident, by a small model (tier 1).

The plan of a turn states the kind of input (triage), the focus (the active quest), the goal, the template and the search for
memories.
"""
