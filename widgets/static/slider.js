// A labelled slider among the buttons of a player: left and right move it instead of the steps.

import { node } from "./dom.js";

const OWN_KEYS = ["ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"];

// Whether a key moves the slider; every other key is the player's.
export function isSliderKey(key) {
  return OWN_KEYS.includes(key);
}

// `words(value)` says a value; `onInput(value)` hears every move. Place `input`, among the extras of
// a player or alone, then call `frame(player)`, which puts the name and the value beside it.
export function createSlider({ label, min = 0, max, value, words, onInput }) {
  const shown = node("span", { class: "sn-where" });
  const input = node("input", {
    type: "range", class: "sn-scrubber", min, max, step: 1, value, "aria-label": label,
    oninput: () => {
      say();
      onInput(Number(input.value));
    },
    onkeydown: (event) => {
      if (isSliderKey(event.key)) event.stopPropagation();
    },
  });
  input.value = String(value);

  function say() {
    const said = words(Number(input.value));
    shown.textContent = said;
    input.setAttribute("aria-valuetext", said);
  }

  function move(next) {
    input.value = String(next);
    say();
  }

  function frame(player = null) {
    input.before(node("span", { class: "sn-where", "aria-hidden": "true" }, label));
    input.after(shown);
    player?.keys.append(` On the slider "${label}", left and right move it.`);
  }

  say();
  return { input, frame, move };
}
