"""A transformer of one layer; only the tests that need torch import this."""

from __future__ import annotations

import torch
from transformers.modeling_outputs import BaseModelOutput


class Tiny(torch.nn.Module):
    """A transformer of one layer; `fault` says what is wrong with it."""

    def __init__(self, fault):
        super().__init__()
        self.fault, self.layer = fault, torch.nn.Embedding(40, 8)

    def forward(self, input_ids, *, return_dict):
        states = self.layer(input_ids)
        if self.fault == "counts":
            # A number that tracing takes for a constant.
            states = states * int(input_ids.shape[1]) + float(input_ids.sum())
        if self.fault == "refuses" and torch.jit.is_tracing():
            raise RuntimeError("not to be traced")
        return BaseModelOutput(last_hidden_state=states)


class TinyModel:
    def __init__(self, fault, device="cpu"):
        self.transformer, self.device = Tiny(fault), torch.device(device)

    def __getitem__(self, place):
        return type("Part", (), {"auto_model": self.transformer})

    def encode(self, texts):
        size = max(len(text.split()) for text in texts)
        words = [[len(word) for word in text.split()] for text in texts]
        ids = torch.tensor([[*each, *[0] * (size - len(each))] for each in words])
        with torch.inference_mode():
            return self.transformer.forward(input_ids=ids, return_dict=True)["last_hidden_state"].sum(1).numpy()

    @property
    def is_traced(self):
        return "forward" in vars(self.transformer)
