"""An answer in a process of its own: asked in plain data, from outside, with nothing in reach.

remote, channel       who asks, and how long it may take
child                 who answers
wire, wire_records    values as frames, of which nothing can be executed
zygote, warm_process  a warm process that the others are forked from
jail, kernel          the layers around each, and the calls that make them
"""
