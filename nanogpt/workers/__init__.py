"""Engine workers in processes of their own, and a router that knows what each has cached.

worker_messages     what the router and its workers send each other
worker_process      the process: an engine that serves orders
router_state        what the router knows of every request and worker
worker_fleet        the router
kv_frames, split_fleet     K/V from one process to another; prefill here, decode there
"""
