"""Reads text, Markdown, HTML and PDF files as documents, each as plain text."""
