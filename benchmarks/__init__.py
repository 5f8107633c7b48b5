"""Speed against the baselines, side by side in one run. Nothing in the course imports this."""
