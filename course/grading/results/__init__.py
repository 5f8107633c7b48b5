"""The pages and tables for an instructor and a student, made from the records only.

scheme              points, late days, partial credit
exports             gradebooks and the files of other systems
pages               a page for each student, and one for the class
tallies             what the class's page counts
words               statuses, lessons and numbers in words
"""
