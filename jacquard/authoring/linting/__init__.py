"""Rules of the template lint: one module for each kind of fault. `lint` joins them."""
