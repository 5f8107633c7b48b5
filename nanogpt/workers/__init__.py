"""Engine workers in processes of their own, and a router that knows what each has cached.

    messages, shared_model    what is said through the pipes, and the weights that all of them map
    worker                    the process: an engine and its prefix cache
    processes                 the parent's side: starting, hearing and ending workers
    routing, books            who serves a request, and what is known when that is decided
    fleet                     the loop that puts these together

Shapes as in `nanogpt`.
"""
