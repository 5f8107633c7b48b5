"""K/V of shared prefixes: kept for requests that begin like earlier ones, found by a radix tree."""
