"""Speculative decoding: a cheap draft proposes tokens, and the model verifies them in one pass.

    drafting      how many tokens to draft, drawing them, and which of them stay
    trigram       a draft of counts

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding",
arXiv 2211.17192.
"""
