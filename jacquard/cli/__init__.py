"""Command line `jacquard`: commands that play sessions, write worlds, edit memory and operate stores."""
