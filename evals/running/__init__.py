"""How sets are played: arms of recall, whole worlds, A/B, the gate, with what they are made of."""
