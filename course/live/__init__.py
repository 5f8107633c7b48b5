"""One engine, served to the room: prompts from phones, and the schedule of them on the projector.

tuning                    what may be set while the engine runs, and within which limits
live_engine               an engine whose settings change between two steps
engine_process, worker    the process that it runs in, and the room's side of it
recent_steps              the newest steps as a trace that the pictures draw
prompts, asked, room      prompts, guests and what becomes of them: plain state, no sockets
serving                   the loop that has the engine step and tells the pages
static_files, web         what the pages are made of, and their websockets
command                   `learn.py demo live`
"""
