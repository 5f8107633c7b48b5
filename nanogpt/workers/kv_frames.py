"""Frames: K/V of consecutive blocks of a text, in a file that two processes map.

    digest of the rest (32 bytes) | length of the header | header: first block, hashes, shape | K/V

The K/V are the bytes of the cache, so nothing is lost. A reader checks the digest, and compares the
hashes of the blocks with those of its own request. In /dev/shm the file is shared memory.
"""

import hashlib
import json
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

_LENGTH = struct.Struct(">I")


class FrameError(ValueError):
    """A frame that is not there, or whose bytes are not those that were written."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The K/V of blocks `first_block` and following: (2, L, H, N * block_size, D)."""

    first_block: int
    hashes: tuple[str, ...]
    kv: Tensor


def write_frame(path: Path, first_block: int, hashes: Sequence[str], kv: Tensor) -> int:
    """Write a frame and return its number of bytes. Raises: OSError."""
    header = json.dumps([first_block, list(hashes), list(kv.shape), str(kv.dtype)]).encode()
    body = kv.contiguous().view(torch.uint8).numpy().tobytes()
    digest = hashlib.sha256(_LENGTH.pack(len(header)) + header)
    digest.update(body)
    with path.open("wb") as file:
        file.write(digest.digest() + _LENGTH.pack(len(header)) + header)
        file.write(body)
        return file.tell()


def read_frame(path: Path, dtype: torch.dtype) -> Frame:
    """The frame, with a copy of its K/V. Raises: FrameError unless it is there and intact."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if hashlib.sha256(memoryview(data)[32:]).digest() != data[:32]:
                raise FrameError("the frame's bytes are not those that were written")
            (length,) = _LENGTH.unpack(data[32:36])
            first, hashes, shape, name = json.loads(data[36 : 36 + length])
            if name != str(dtype):
                raise FrameError(f"the frame holds {name}; the cache holds {dtype}")
            body = bytearray(data[36 + length :])
    except (OSError, ValueError) as error:
        if isinstance(error, FrameError):
            raise
        raise FrameError(f"the frame cannot be read: {error}") from None
    kv = torch.frombuffer(body, dtype=torch.uint8).view(dtype).view(shape)
    return Frame(first, tuple(hashes), kv)
