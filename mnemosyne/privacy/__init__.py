"""Redacts personal data before it is stored, erases stored data, and proves an erasure by a search.

To redact means to replace personal data and secrets in a new text by placeholders. To erase means to remove a user, a
session or evidence from everything that is stored. To scrub means to cut erased texts out of records that stay.
"""
