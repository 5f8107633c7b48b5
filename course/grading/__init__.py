"""Marks for a class: submissions in, records out, judged by the checks that the lessons use.

    record              what a submission came to: plain data, one JSON file each
    wire, wire_records  values as frames, of which nothing can be executed
    child, remote       the two ends of a channel: the answers, and who asks them
    zygote, jail        where answers run: forked from a warm process, with nothing in reach

An answer never runs in the process that judges it.
"""
