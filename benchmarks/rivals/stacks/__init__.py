"""One file a stack, each behind the protocol in `stack.py` and run in a process of its own."""
