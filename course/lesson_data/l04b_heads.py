"""Behind lesson 4b: attention by distance, windows in single layers, trained windows, H2O."""

from collections.abc import Callable, Sequence

import torch

from course.lesson_data import data_path
from course.lesson_data.l04b_readings import loss_of, passages, read
from course.lesson_data.texts import table
from nanogpt import GPT, load_model

# (kept, total, now) -> which kept entries go, bool (H, T); `total` is the weight each has got.
Choose = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]

# --- where heads look ---------------------------------------------------------------------------


@torch.inference_mode()
def attention(model: GPT, tokens: torch.Tensor) -> torch.Tensor:
    """All weights of a reading without a window, (L, B, H, T, T), for tokens (B, T)."""
    seen: list[torch.Tensor] = []

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.transpose(-2, -3) for x in (q, k, v))  # (B, H, T, D)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        seen.append(scores.masked_fill(ahead, float("-inf")).softmax(-1))
        return (seen[-1] @ v).transpose(-2, -3)

    model.hidden(tokens, torch.arange(tokens.shape[-1]), attend)
    return torch.stack(seen)


def weights_by_distance(model: GPT) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean weight of the last eight queries by distance, (L, H, 252), and on the first four
    positions, which the former leaves out, (L, H, 4)."""
    weights = attention(model, torch.tensor(passages()[0])).mean(1)  # (L, H, T, T)
    by_distance = torch.zeros(*weights.shape[:2], 252)
    for query in range(248, 256):
        by_distance[..., : query - 3] += weights[:, :, query, 4 : query + 1].flip(-1) / 8
    return by_distance, weights[:, :, 248:, :4].mean(2)


# --- what layers lose ---------------------------------------------------------------------------


def added_by_layer(model: GPT) -> dict[int, float]:
    """The loss that a window of 16 in only one layer adds, by layer."""
    return {
        layer: _added(model, [16 if other == layer else None for other in range(4)])
        for layer in range(4)
    }


def added_with_sinks_in_layer_0(model: GPT) -> float:
    """The loss that a window of 16 in all layers adds when only layer 0 keeps four sinks."""
    return _added(model, [16] * 4, [4, 0, 0, 0])


def layers_table(model: GPT) -> str:
    """Layer 0 with the full context, the other three with a window: added loss, and K/V held."""
    rows: list[str] = []
    for window in (16, 32, 64):
        added = _added(model, [None, window, window, window])
        rows.append(f"| W = {window} | {added:+.2f} | {(256 + 3 * window) / (4 * 256):.0%} |")
    return table("| layers 1 to 3 | added loss | K/V held, of 256 tokens |", "lrr", rows)


def _added(model: GPT, windows: Sequence[int | None], sinks: int | Sequence[int] = 0) -> float:
    texts, nexts = passages()
    with_all = loss_of(read(model, texts, None), nexts)
    return round(loss_of(read(model, texts, windows, sinks), nexts) - with_all, 2) + 0.0  # no -0.00


# --- the same seventeen characters --------------------------------------------------------------


def seventeen(model: GPT, window: int) -> tuple[float, float, float]:
    """Loss with the full context, under a window, and of the window's tokens read as a text of
    their own, at every fourth position."""
    texts, nexts = passages()
    places = nexts[:, window::4]
    rows = torch.tensor([t[i : i + window + 1] for t in texts for i in range(0, 256 - window, 4)])
    fresh = read(model, rows, None)[:, -1]  # (6 x places, V)
    full, windowed = (read(model, texts, each)[:, window::4] for each in (None, window))
    return loss_of(full, places), loss_of(windowed, places), loss_of(fresh, places)


# --- models of the post's size ------------------------------------------------------------------


def small(name: str) -> GPT:
    """A model of 4 layers of 32 channels; see lessons/data/small_models.md."""
    return load_model(data_path(f"{name}.safetensors"))


def twins_table() -> str:
    """Models trained with and without a window, each served with and without one."""
    texts, nexts = passages()
    rows: list[str] = []
    for name, file in (("with the full context", "small_full"), ("with W = 16", "small_window_16")):
        model = small(file)
        cells = [
            f"{loss_of(read(model, [t[:128] for t in texts], window), nexts[:, :128]):.2f}"
            for window in (None, 16)
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return table("| trained | served with the full context | served with W = 16 |", "lrr", rows)


# --- cleverer than the last W -------------------------------------------------------------------


@torch.inference_mode()
def read_keeping(model: GPT, tokens: Sequence[int], choose: Choose) -> torch.Tensor:
    """Logits (T, V) of a reading in which each head drops, after each token, what `choose` says."""

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))  # (H, T, D)
        scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5  # (H, T, T)
        kept = torch.zeros(scores.shape[:2], dtype=torch.bool)
        total, out = torch.zeros(scores.shape[:2]), torch.empty_like(q)
        for now in range(len(tokens)):
            kept[:, now] = True
            row = scores[:, now].masked_fill(~kept, float("-inf")).softmax(-1)  # (H, T)
            out[:, now] = (row.unsqueeze(1) @ v).squeeze(1)
            total += row
            kept &= ~choose(kept, total, now)
        return out.transpose(0, 1)

    return model.logits(model.hidden(torch.tensor(tokens), torch.arange(len(tokens)), attend))


def _oldest(sinks: int) -> Choose:
    """Drops the oldest entry that is no sink, once there are more than 32."""

    def choose(kept: torch.Tensor, total: torch.Tensor, now: int) -> torch.Tensor:
        gone = torch.zeros_like(kept)
        if now >= 32:
            gone[:, now - (32 - sinks)] = now - (32 - sinks) >= sinks
        return gone

    return choose


def _lightest(recent: int) -> Choose:
    """Drops the entry with the least weight so far that is not among the recent ones."""

    def choose(kept: torch.Tensor, total: torch.Tensor, now: int) -> torch.Tensor:
        gone = torch.zeros_like(kept)
        if now >= 32:
            value = total.masked_fill(~kept, float("inf"))
            value[:, now + 1 - recent : now + 1] = float("inf")
            gone[torch.arange(len(kept)), value.argmin(1)] = True
        return gone

    return choose


def keeping_table(model: GPT) -> str:
    """The loss that four rules of 32 entries per head add on the first passage."""
    texts, nexts = passages()
    full = loss_of(read(model, torch.tensor(texts[0]), None), nexts[0])
    rules = {
        "the last 32": _oldest(0),
        "4 sinks and the last 28": _oldest(4),
        "the last 16 and the 16 heaviest": _lightest(16),
        "the last 24 and the 8 heaviest": _lightest(24),
    }
    rows: list[str] = []
    for name, choose in rules.items():
        added = loss_of(read_keeping(model, texts[0], choose), nexts[0]) - full
        rows.append(f"| {name} | {added:+.2f} |")
    return table("| 32 entries per head | added loss |", "lr", rows)
