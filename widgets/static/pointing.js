// Presses on pictures. Knows no widget.

// On `mousedown`: a press that took the focus from the toolbar would take its help away, and move
// the picture up before the press ends.
export function keepFocus(event) {
  event.preventDefault();
}
