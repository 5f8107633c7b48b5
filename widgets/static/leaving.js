// The way on from an editor of marimo's by keyboard. Esc leaves the editor for its cell; from there
// Tab would lead back into it, so what stands in the cell beside its output is passed over once.

// All that lies beside the way from the cell to its output, if it has one.
function partsToPass(cell) {
  const parts = [];
  let at = cell.querySelector(".output-area");
  if (!at) return [...cell.children];
  for (; at !== cell; at = at.parentElement) {
    parts.push(...[...at.parentElement.children].filter((each) => each !== at));
  }
  return parts;
}

function passOver(event) {
  if (event.key !== "Tab" || !event.target.matches?.(".marimo-cell")) return;
  const parts = partsToPass(event.target);
  for (const part of parts) part.inert = true;
  setTimeout(() => {
    for (const part of parts) part.inert = false;
  });
}

// Once for a page, whatever widget comes first.
export function helpLeaving() {
  if (document.documentElement.dataset.snLeaving) return;
  document.documentElement.dataset.snLeaving = "true";
  document.addEventListener("keydown", passOver, true);
}
