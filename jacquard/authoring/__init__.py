"""Tools for the authors of templates: lint, preview, comparison, golden prompts, scaffold and watch.

They work on real turns and never write to a store. They know stores, planners and estimators by their Protocols only, and
never import jinja2: they read a template's syntax as plain values.
"""
