"""Readers of files as documents: text, Markdown, HTML and PDF, each as plain text."""
