"""Compares ours with a user's alternatives: same data, same embedder, same machine, one run.

Each stack is one small file behind one protocol (`stack.Stack`) and runs in a process of its own (`child`), so that
neither memory nor imports mix; `run` asks them in turn. Frameworks are imported by their own file and nowhere else.
"""
