"""Marks for a class: submissions in, records out, judged by the checks that the lessons use.

    handed_in           what students handed in
    grade, batch        one submission's marks, and a class's
    record              what a submission came to: plain data, one JSON file each
    results             what is made of the records
    command             `learn.py grade`

Answers run in a sandbox (`course.calling`), and never in the process that judges them.
"""
