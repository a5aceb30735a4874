"""Record everything that comes out of played sessions, or compare the code at hand with a recording.

python -m tests.proof record DIR [--only NAME…]            play all parts and write to DIR, outside of the repository
python -m tests.proof check DIR [--only NAME…]             play again and compare byte for byte; exit code 1 if anything differs
python -m tests.proof check DIR --stores [--only NAME…]    also open the recorded stores, replay every turn, play one more
"""

from tests.proof import fixed

fixed.pin()

if __name__ == "__main__":
    import sys

    from tests.proof.command import main

    sys.exit(main())
