// A run's steps as equal columns or as time, with the button that changes it and the pace of play.

import { toggleButton } from "./player.js";

// `first` is "steps" or "time". Returns { name(), button, delay }, the last two for a player.
export function timeAxis({ steps }, moves, first) {
  const longest = Math.max(1, ...steps.map((step) => step.end_us - step.start_us));
  let axis = first;
  const button = toggleButton("Width shows time", (pressed) => {
    axis = pressed ? "time" : "steps";
    moves.redraw();
  }, first === "time");
  // On the time axis a step is shown for as long as it takes, the longest for two seconds.
  const delay = (index) => {
    const at = steps[index];
    return axis === "time" && at ? Math.max(90, ((at.end_us - at.start_us) / longest) * 2000) : 900;
  };
  return { name: () => axis, button, delay };
}
