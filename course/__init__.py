"""The course's machinery: checks and their reports, progress, saved answers, the overview."""
