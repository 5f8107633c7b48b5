"""What students handed in: found in the layouts of learning systems, read, and never run.

submissions         a class's files, one for each student and lesson
naming              whose it is and which lesson's, by the names of files and folders
pieces, zips        files below a folder or in a zip file, with limits
texts               Python text, of a notebook its code cells
"""
