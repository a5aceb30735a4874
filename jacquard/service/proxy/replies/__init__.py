"""Reads the answers of model servers (their events and their texts), and writes answers that the engine gives without a
model.
"""
