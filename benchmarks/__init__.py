"""Measurements of cost, printed with the machine they were made on. Nothing here is a test: no limit is asserted."""
