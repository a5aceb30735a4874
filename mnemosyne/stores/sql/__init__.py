"""Statements and rules that the SQL stores share."""
