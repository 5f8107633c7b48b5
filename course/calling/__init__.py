"""The only place that runs a learner's code: in a child process, asked in plain data.

answers, results          what a check asks, and what comes back
channel, wire             messages within limits, as frames in which nothing can be executed
processes, spawner, sandbox   how a process is started: forked, spawned, sandboxed for marks
fork_server, spawned      the process that others are forked from, and one started from nothing
child, process_limits     what runs in the process, its limits, and how it ended
loading                   turns an answer's text into functions, in that process
errors                    words for what a function raised
values, plain_values      copies in plain data, and the rule for values in another type
functions                 a learner's functions as they travel
jobs, policies            whole runs, and a learner's functions in them
"""
