// One websocket that comes back by itself: says the first word again, and stops when told to.

const LONGEST_WAIT_MS = 10_000;

// `first()` is what the page says first; `hear(message)` gets all that comes; `state(words)` is told
// how the connection stands: "", or why nothing comes. Returns say(message), which is false when
// nothing can be said just now.
export function connect(path, first, hear, state) {
  let socket = null;
  let tries = 0;
  let over = false;

  function open() {
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`);
    socket.addEventListener("open", () => socket.send(JSON.stringify(first())));
    socket.addEventListener("message", (event) => {
      const message = JSON.parse(event.data);
      if (message.kind === "welcome") {
        tries = 0;
        state("");
      }
      if (message.kind === "end" || message.kind === "refused") over = true;
      if (message.kind === "end") state("The demo is over. Thank you for taking part.");
      hear(message);
    });
    socket.addEventListener("close", () => {
      if (over) return;
      state("The connection is lost; trying again…");
      tries += 1;
      setTimeout(open, Math.min(LONGEST_WAIT_MS, 500 * 2 ** tries) * (0.5 + Math.random() / 2));
    });
  }

  open();
  return (message) => {
    if (socket.readyState !== WebSocket.OPEN) return false;
    socket.send(JSON.stringify(message));
    return true;
  };
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const NAMES = {
  waiting: "waits", prefilling: "prefill", active: "decode", preempted: "preempted", lost: "starts again",
  done: "done", refused: "refused",
};

// A request's state in one word, on its own ground. Text is only ever set as text.
export function badge({ state }) {
  return element("span", { class: `badge badge-${state}` }, NAMES[state]);
}

export function textOf({ prompt, text }) {
  if (prompt === null) return element("p", { class: "text hidden" }, "hidden");
  return element("p", { class: "text" }, element("span", { class: "prompt" }, prompt), text);
}
