"""Contains the parts of the engine that face the host (the program that calls the engine): input values, session locks
and cached turns.
"""
