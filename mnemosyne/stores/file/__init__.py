"""Stores sessions in a folder of JSON files, for one machine."""
