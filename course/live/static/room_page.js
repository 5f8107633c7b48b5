// What a phone's page and the screen share: the stream of views, messages to the room, and cards.

const LONGEST_WAIT_MS = 10_000;

async function* messagesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) yield JSON.parse(event.slice("data: ".length));
  }
}

// Reads views, and comes back by itself until the room refuses it or ends. `headers()` say who asks,
// `hear(message)` gets each message, `state(words)` says why none comes, "" when they do.
export function listen(path, headers, hear, state) {
  let tries = 0;
  let over = false;

  async function read() {
    const answer = await fetch(path, { headers: headers(), cache: "no-store" });
    if (!answer.ok) {
      over = true;
      const { why, error } = await answer.json();
      hear({ kind: "refused", why: why ?? error.message });
      return;
    }
    for await (const message of messagesOf(answer.body)) {
      if (message.kind === "welcome") {
        tries = 0;
        state("");
      }
      if (message.kind === "end") {
        over = true;
        state("The demo is over. Thank you for taking part.");
      }
      hear(message);
    }
  }

  async function open() {
    await read().catch(() => {});
    if (over) return;
    state("The connection is lost; trying again…");
    tries += 1;
    setTimeout(open, Math.min(LONGEST_WAIT_MS, 500 * 2 ** tries) * (0.5 + Math.random() / 2));
  }

  open();
}

// Sends a message. Returns why nothing was done, "" when it was.
export async function send(path, headers, message) {
  const body = JSON.stringify(message);
  try {
    const { why, error } = await (await fetch(path, { method: "POST", headers, body })).json();
    return why ?? error.message;
  } catch {
    return "Not connected just now; nothing was sent.";
  }
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const NAMES = {
  waiting: "waits", prefilling: "prefill", active: "decode", preempted: "preempted", lost: "starts again",
  done: "done", refused: "refused",
};

// A request's number, its state in one word, and its text, which is only ever set as text.
export function card(request, name, ...more) {
  const badge = element("span", { class: `badge badge-${request.state}` }, NAMES[request.state]);
  const head = element("p", { class: "head" }, element("strong", {}, name), badge);
  const text = request.prompt === null
    ? element("p", { class: "text hidden" }, "hidden")
    : element("p", { class: "text" }, element("span", { class: "prompt" }, request.prompt), request.text);
  return element("article", { class: "card" }, head, text, ...more);
}
