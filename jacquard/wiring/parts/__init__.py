"""Opens the parts of a runtime from settings, a module a kind; `runtime_parts` joins them."""
