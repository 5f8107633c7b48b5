"""How good the checks are, as a number: on right answers, wrong ones, mutants and other types.

rewriting            one piece of a function's source changed at a time
mutants, weakening   what a slip makes of a right answer, and what it can be made to forget
variants             right results given in another type
auditing             one exercise's audit, which finds what is not as it should be
command              `learn.py audit`: exercises spread over processes, and the table
"""
