"""Plans turns, that is, decides what a turn is about. Rules (tier 0) make a plan for every turn. If the rules are not
confident, a small model (tier 1, the refiner) improves the plan.

The plan states the kind of input (triage), the focus (the quest that the turn is about), the goal, the template of the
prompt, and the search for memories. The triage is narrative (a model answers) or numerical (a declared action of the
world answers).
"""
