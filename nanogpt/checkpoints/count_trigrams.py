"""Writes the draft's counts: `python -m nanogpt.checkpoints.count_trigrams --corpus input.txt`.

They are of the text that the shipped model was trained on, so the draft knows no more of the rest
than the model does.
"""

import argparse
from pathlib import Path

import torch

from nanogpt.checkpoints.tokenizer import encode
from nanogpt.checkpoints.train import CORPUS_HELP, read_corpus, split
from nanogpt.checkpoints.weights import SHAKESPEARE
from nanogpt.speculative.trigram import SHIPPED_COUNTS, count_trigrams, save_counts


def main() -> None:
    """Parse the command line, count and write."""
    parser = argparse.ArgumentParser(
        "python -m nanogpt.checkpoints.count_trigrams",
        description="Counts the trigrams of Tiny Shakespeare.",
        allow_abbrev=False,
    )
    parser.add_argument("--corpus", type=Path, help=CORPUS_HELP)
    text = "file for the counts (default: the shipped file)"
    parser.add_argument("--out", type=Path, default=SHIPPED_COUNTS, help=text)
    options = parser.parse_args()
    try:
        tokens = torch.tensor(encode(read_corpus(options.corpus)))  # (N,)
    except ValueError as error:
        parser.error(str(error))
    train_tokens, _ = split(tokens)
    save_counts(count_trigrams(train_tokens, SHAKESPEARE.vocab_size), options.out)


if __name__ == "__main__":
    main()
