"""Judges that exercises of several lessons share: by comparison, by ranking, on loads, by votes."""
