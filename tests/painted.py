"""How well the words of a page's pictures can be read: measured on what is really painted.

A rule checker for pages does not look at the words of an SVG. Here every word's colour and what
lies behind its letters are taken from screenshots, so that shades, tints, stripes and opacities
above and below count as they are seen.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from driving import JS, at_rest

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page


@dataclass(frozen=True, slots=True)
class Word:
    """One text of a picture: what it says, where it stands, and the contrast of its letters."""

    words: str
    where: str
    contrast: float


def words_of(page: Page) -> list[Word]:
    """The contrast of every text that the page's pictures show now, from 1 to 21.

    Of a text's pixels the least legible twentieth is left out: a hairline that crosses a letter.
    """
    places = at_rest(page).evaluate(JS["PAINTABLE"])
    if not places:
        return []
    camera = page.context.new_cdp_session(page)
    shots = {mode: _shot(page, camera, mode) for mode in ("words", "blocks", "bare")}
    camera.detach()
    page.evaluate("window.unpaint()")
    return [
        Word(place["words"], place["where"], contrast)
        for place in places
        if (contrast := _contrast(place, shots)) is not None
    ]


def _shot(page: Page, camera: CDPSession, mode: str) -> np.ndarray:
    from PIL import Image

    page.evaluate("(mode) => window.paint(mode)", mode)
    # The pixels of Playwright's own screenshots, at half the cost: a PNG that is packed less.
    options = {"format": "png", "optimizeForSpeed": True}
    image = base64.b64decode(camera.send("Page.captureScreenshot", options)["data"])
    return np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))  # (H, W, 3) of 0 to 255


def _contrast(place: dict, shots: dict[str, np.ndarray]) -> float | None:
    """None for a text of which nothing lies inside its picture's frame."""
    top, bottom = round(place["top"]) + 1, round(place["bottom"]) - 1
    left, right = round(place["left"]) + 1, round(place["right"]) - 1
    words, blocks, bare = (
        shots[mode][top:bottom, max(left, 0) : right].astype(np.float64) for mode in shots
    )
    if not words.size:
        return None
    letters = np.abs(words - bare).max(axis=2) > 24  # (H, W)
    if not letters.any():
        letters = np.ones_like(letters)
    ink, ground = _luminance(blocks)[letters], _luminance(bare)[letters]
    light, dark = np.maximum(ink, ground), np.minimum(ink, ground)
    return float(np.quantile((light + 0.05) / (dark + 0.05), 0.05))


def _luminance(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) of 0 to 255 -> (H, W) relative luminance, as WCAG 2 defines it."""
    part = pixels / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])
