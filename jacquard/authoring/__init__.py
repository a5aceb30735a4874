"""Tools for the authors of templates: lint, preview, comparison, golden prompts, scaffold and watch.

They work on real turns and never write to a store. They use stores, planners and estimators only through their Protocols, and
never import jinja2: they read a template's syntax as plain values.
"""
