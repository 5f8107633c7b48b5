"""`learn.py demo live`: one engine for the room. Prompts come from phones, a projector shows them.

room_engine          engines whose settings change between two steps, and their pace
tuning               those settings and their limits
room_requests, room  guests, requests and the instructor's controls: no sockets
room_views           what each page shows
room_web             the room's routes around the server's live page
live_command         the command
"""
