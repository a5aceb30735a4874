"""Redacts personal data before it is stored, erases stored data, and proves an erasure by a search."""
