"""Opens the parts of a runtime from its settings. Each module opens one kind of part, and `runtime_parts` joins all
parts.
"""
