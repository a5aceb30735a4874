"""The parts of the tiered index: its folder, where each scope is searched, and what is done behind turns."""
