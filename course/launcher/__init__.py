"""The modules of learn.py. They run before anything is installed: standard library only."""
