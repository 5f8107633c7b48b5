"""Marks for a class: submissions in, records out, judged by the checks that the lessons use.

    handed_in           what students handed in
    grade, batch        one submission's marks, and a class's
    spread, container   a class graded on several machines, or inside a container
    record              one submission's result: plain data, one JSON file each
    results             points, pages and tables, made from the records
    command             `learn.py grade`

Answers run in a sandbox (`course.calling`), and never in the process that judges them.
"""
