// Of the boxes that wait in a row for one prediction, the first says so and the others are not shown.

import { isAnswered } from "./answered.js";

const NEAR_PX = 56; // less than two cells with a line of text between them
const SETTLED_MS = 100;

// Which boxes follow another one closely, from where all of them stand.
export function followers(places, near = NEAR_PX) {
  return places.map(({ top, height }, at) => (
    at > 0 && height > 0 && Math.abs(top - places[at - 1].top - places[at - 1].height) < near
  ));
}

// A widget's host in marimo has no box of its own.
function placeOf(box) {
  return (box.shadowRoot?.querySelector(".sn-waits") ?? box).getBoundingClientRect();
}

function hideFollowers(boxes) {
  for (const box of boxes) box.style.display = "";
  const hidden = followers(boxes.map(placeOf));
  boxes.forEach((box, at) => {
    if (hidden[at]) box.style.display = "none";
  });
}

// Watches the page, whose boxes come one after another, until the prediction is answered.
export function watchRows(key) {
  const name = CSS.escape(key);
  const waiting = `[data-sn-waits="${name}"], [data-sn-after="${name}"] > .sng-waits`;
  let count = 0;
  let timer = 0;
  const look = () => {
    const boxes = isAnswered(key) ? [] : [...document.querySelectorAll(waiting)];
    if (boxes.length !== count) hideFollowers(boxes);
    count = boxes.length;
  };
  const observer = new MutationObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(look, SETTLED_MS);
  });
  observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ["data-sn-waits"] });
  look();
  return () => {
    clearTimeout(timer);
    observer.disconnect();
  };
}
