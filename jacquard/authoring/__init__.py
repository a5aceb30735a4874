"""Tools for the authors of templates: lint, preview, comparison, golden prompts, scaffold and watch (spec 1).

The rooms exist so that templates can be written against real turns without writing to any store. They know stores, planners
and estimators by their Protocols only, and never import jinja2: what they know of a template's syntax are plain values.
"""
