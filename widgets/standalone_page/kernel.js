function createModel(state) {
  const listeners = new Map();
  const of = (event) => listeners.get(event) ?? listeners.set(event, new Set()).get(event);
  return {
    get: (name) => state[name],
    set: (name, value) => {
      if (state[name] === value) return;
      state[name] = value;
      for (const call of [...of(`change:${name}`)]) call();
    },
    save_changes: () => {},
    on: (event, call) => of(event).add(call),
    off: (event, call) => of(event).delete(call),
  };
}
// Widgets are told their width, and draw, when a frame is laid out: before the next one begins.
async function drawn() {
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
}
