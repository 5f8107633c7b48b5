"""The files that students handed in: found in a named layout, read, and never run.

submissions         a class's files, one for each student and lesson
layouts             whose a file is, by the names of the folders that lead to it
pieces, zips        files below a folder or in a zip file, with limits
texts               Python text, of a notebook its code cells
"""
