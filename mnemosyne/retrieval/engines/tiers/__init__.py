"""Parts of the tiered index: its folder, the place of each scope, and the work after turns."""
