"""Tools for authors of worlds and templates: lint, preview, comparison, golden prompts, replay, and import of files.

The tools work on recorded turns or on a world pack (the folder in which an author describes a world). A golden prompt
is a prompt that an author approved, for comparison with later renderings. Only `files` writes to a store. Stores,
planners and estimators are used only through their Protocols. jinja2 is never imported; the syntax of a template is
read as plain values.
"""
