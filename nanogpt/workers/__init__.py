"""Engine workers in processes of their own, and a router that knows what each has cached.

    worker_messages, shared_model     what goes through the pipes, and the weights that all map
    worker_process            the process: an engine and its blocks
    worker_processes          the parent's side: starting, hearing and ending workers
    routing, router_state     which worker serves a request, and what is known of each
    worker_fleet              the loop that puts these together

Shapes as in `nanogpt`.
"""
