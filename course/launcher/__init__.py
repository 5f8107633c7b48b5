"""What learn.py is made of. Runs before anything is installed: standard library only."""
