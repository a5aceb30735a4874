"""Embedders: local models through torch or ONNX, remote models through litellm, and the export to ONNX."""
