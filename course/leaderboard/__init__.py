"""The contest with a learner's own policies: tables, a report card, and verified leaderboards."""
