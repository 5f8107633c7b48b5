"""`learn.py demo live`: one engine for the room. Prompts come from phones, a projector shows them.

live_engine      the engine's process, whose settings change between two steps
tuning           those settings and their limits
prompts, room    guests and requests: plain state, no sockets
recent_steps, room_views    the newest steps as a trace, and what each page shows
serving          the loop that lets the engine step, and its process
room_web, live_command      pages, websockets, and the command
"""
