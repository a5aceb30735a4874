"""Parts of the tiered index: its folder, the place in which each scope is searched, and the work after turns."""
