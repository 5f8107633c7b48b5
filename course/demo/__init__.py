"""Lessons as slides for a room: one page that works offline, with notes for the speaker."""
