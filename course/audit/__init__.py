"""How good the checks are, as a number: on right answers, wrong ones, mutants and other types.

mutants              right answers with one piece of their source changed
weakening            right answers that forget one thing
variants             right results given in another type, and an answer whose calls are noted
auditing             one exercise's audit, and what it finds wrong
audit_command        `learn.py audit`: exercises spread over processes, and the table
"""
