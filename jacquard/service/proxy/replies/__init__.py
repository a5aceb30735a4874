"""Reads and writes answers of model servers: their events, their texts, and answers that the engine gives itself."""
