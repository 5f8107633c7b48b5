"""What an instructor and a student get, made from the records alone.

scheme              points, late days, partial credit
exports             gradebooks and the files of other systems
feedback            a page for each student
class_report, tallies       a page on the class, and what it counts
words, output       statuses and lessons in words; files and pages
"""
