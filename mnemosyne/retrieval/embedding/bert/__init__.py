"""A BERT sentence encoder: read from files without torch, and written as an ONNX graph."""
