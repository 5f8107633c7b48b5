"""K/V of shared prefixes: kept for requests that begin like earlier ones, found by a radix tree.

prefix_cache        what is stored, found and copied
radix               the tree by token, least recently used out first
"""
