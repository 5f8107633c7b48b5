"""Runs in a page's Python: a line for each right and each wrong answer, with its verdict."""

import json
import sys

from course.calling.answers import RemoteAnswer
from course.calling.child import argument_names
from course.calling.errors import code_inside
from course.registry import exercises
from course.tab import page_channel

for item in exercises():
    wrong = [each for one in item.misconceptions for each in one.written]
    for number, function in enumerate([*item.right, *wrong]):
        code = getattr(function, "__code__", None)
        if code and any("torch" in each.co_names for each in code_inside(code)):
            continue
        page_channel.FILE = code.co_filename if code else ""  # whose loops are to be stopped
        sys.monitoring.restart_events()
        channel = page_channel.PageStarter().start()
        channel.answers.take({item.name: function})
        answer = RemoteAnswer(channel, item.name, argument_names(function), function)
        report = item.judge(answer)
        sys.stdout.write(f"{json.dumps([item.id, number, report.status, report.idea])}\n")
