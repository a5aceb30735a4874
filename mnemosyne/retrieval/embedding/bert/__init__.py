"""Reads a BERT sentence encoder from files, without torch, and writes it as an ONNX graph."""
