"""Opens the parts of a runtime from its settings. Each module opens one kind of part; `runtime_parts` joins them."""
