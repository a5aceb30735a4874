"""Finds faults in templates: one module of rules for each kind of fault. The module `lint` joins the rules."""
