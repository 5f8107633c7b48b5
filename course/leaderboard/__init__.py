"""One's own parts in the contest: tables, a report card, a leaderboard that can be verified."""
