"""Embedders, which turn texts into vectors: local models through torch, ONNX or numpy, remote models through litellm,
and the export of models to ONNX.
"""
