"""Executors: how a step's rows go through the model. Same rows, same logits, different layouts.

base                            what an executor is: rows in, logits out
packed, paged_attention         one flat row, attention over the KV cache in place: the default
compiled, kernel, kernel_cache  the same as one call of compiled code, with numba: the fastest
prepacked, int8                 its products: by oneDNN where that is quicker, or of 8-bit integers
single_mask, fused, padded      one mask over a flat row; one left-padded forward; two
batch_invariant                 a form of packed with the same bits in every batch
"""
