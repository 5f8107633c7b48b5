// Exercises on a page of the site: an editor each, checked by Python in a worker of this browser.
// What a reader writes stays in localStorage.

(() => {
  const KEPT = "serving-nanogpt";
  const SILENT_S = 6; // each call has a limit of its own, and a check gives signs of life meanwhile
  const here = new URL(document.documentElement.dataset.root || ".", location.href);

  // ---- what is kept ------------------------------------------------------------------------------

  let unsaved = null; // where the browser keeps nothing, the page does

  function kept() {
    const empty = { answers: {}, predictions: {}, hints: {} };
    try {
      return { ...empty, ...JSON.parse(unsaved ?? localStorage.getItem(KEPT) ?? "{}") };
    } catch {
      return empty;
    }
  }

  function keep(kind, key, change) {
    const all = kept();
    all[kind][key] = { ...all[kind][key], ...change };
    const text = JSON.stringify(all);
    try {
      localStorage.setItem(KEPT, text);
    } catch {
      unsaved = text;
    }
  }

  function takeAlong() {
    const blob = new Blob([JSON.stringify(kept(), null, 1)], { type: "application/json" });
    const link = node("a", { href: URL.createObjectURL(blob), download: "serving-nanogpt.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // A prediction or hints with what the reader did before.
  function recall(kind, state) {
    if (kind === "prediction") return { ...state, ...kept().predictions[state.key] };
    if (kind === "hints") return { ...state, ...kept().hints[state.key] };
    return state;
  }

  function remember(kind, model) {
    const watch = (name, save) => model.on(`change:${name}`, save);
    if (kind === "prediction") {
      const save = () => {
        const [choice, committed, shown] = ["choice", "committed", "shown"].map((each) => model.get(each));
        keep("predictions", model.get("key"), { choice, committed, shown });
      };
      watch("committed", save);
      watch("shown", save);
    } else if (kind === "hints") {
      watch("shown", () => {
        keep("hints", model.get("key"), { shown: model.get("shown") });
        document.dispatchEvent(new CustomEvent("hinted", { detail: model.get("key") }));
      });
    }
  }

  // ---- Python ------------------------------------------------------------------------------------

  class Lost extends Error {
    constructor(words, seconds) {
      super(words);
      this.seconds = seconds; // without a sign of life, null where it ended by itself
    }
  }

  // One interpreter in a worker. `tell` hears which share of it is loaded.
  function startPython(tell) {
    const worker = new Worker(new URL("tab/worker.js", here), { type: "module" });
    const waiting = new Map();
    let heard = 0;
    let last = 0;
    let hasEnded = false;
    const end = (error) => {
      hasEnded = true;
      worker.terminate();
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
    };
    worker.onmessage = ({ data }) => {
      heard = performance.now();
      if (data.share !== undefined) tell(data.share);
      if (data.fatal) end(new Lost(data.fatal, null));
      const found = waiting.get(data.id);
      waiting.delete(data.id);
      found?.resolve(data.value);
    };
    worker.onerror = (event) => end(new Lost(event.message || "It could not be loaded.", null));
    const call = (name, args = {}) =>
      new Promise((resolve, reject) => {
        last += 1;
        heard = performance.now();
        waiting.set(last, { resolve, reject });
        worker.postMessage({ id: last, name, args });
      });
    const silent = () => (performance.now() - heard) / 1000;
    return { call, end, silent, hasEnded: () => hasEnded, ready: call("prepare", { exercises: ids() }) };
  }

  let current = null;
  let spare = null;
  let loading = () => {};

  function python() {
    if (!current || current.hasEnded()) {
      current = spare ?? startPython((share) => loading(share));
      spare = null;
    }
    return current;
  }

  // Calls a function of course/tab/in_page.py. Raises: Lost.
  async function ask(name, args) {
    const interpreter = python();
    await interpreter.ready;
    const watch = setInterval(() => {
      if (interpreter.silent() > SILENT_S) interpreter.end(new Lost("It was stopped.", SILENT_S));
    }, 250);
    try {
      return await interpreter.call(name, args);
    } finally {
      clearInterval(watch);
      python();
      spare ??= startPython(() => {});
    }
  }

  // ---- an exercise -------------------------------------------------------------------------------

  const boxes = () => [...document.querySelectorAll(".tab-exercise")];
  const ids = () => boxes().map((box) => box.dataset.exercise);
  const textOf = (box) => kept().answers[box.dataset.exercise]?.text ?? box.dataset.stub;

  // The lesson as the reader has written it so far: answers may call each other.
  function lessonText() {
    const prelude = document.getElementById("main").dataset.prelude;
    return [prelude, ...boxes().map(textOf)].join("\n\n\n# %%\n");
  }

  function exercise(box) {
    const { exercise: id, stub } = box.dataset;
    const [place, button, reset, status, bar, report, worked] = [
      ".tab-code", ".tab-check", ".tab-reset", ".tab-status", "progress", ".tab-report", ".tab-worked",
    ].map((each) => box.querySelector(each));
    let editor = null;
    const save = (change) => keep("answers", id, change);

    async function open() {
      const { createEditor } = await import(new URL("tab/editor.js", here));
      if (editor) return;
      place.replaceChildren();
      place.removeAttribute("tabindex");
      editor = createEditor(place, {
        text: textOf(box),
        label: `Your code: ${id.split(".")[1]}`,
        check,
        leave: () => button.focus(),
        changed: (now) => save({ text: now }),
      });
      place.addEventListener("focusin", warm);
    }

    function warm() {
      loading = (share) => {
        bar.hidden = share >= 1;
        bar.value = share;
        status.textContent = "Loading Python";
      };
      const done = () => {
        bar.hidden = true;
        if (!button.hasAttribute("aria-disabled")) status.textContent = "";
      };
      const began = python();
      began.ready.then(done, done);
    }

    async function judged() {
      try {
        return await ask("check", { exercise: id, text: lessonText() });
      } catch (lost) {
        return await ask("lost", { exercise: id, seconds: lost.seconds, words: lost.message });
      }
    }

    async function check() {
      if (button.hasAttribute("aria-disabled")) return;
      warm();
      button.setAttribute("aria-disabled", "true");
      const began = performance.now();
      const text = textOf(box);
      status.textContent = "Checking";
      try {
        const found = await judged();
        report.innerHTML = found.html;
        const passed = found.status === "passed";
        if (found.status !== "not_started") save({ text, passed, ...(passed && { best: text }) });
        await offerWorked();
        document.dispatchEvent(new CustomEvent("checked", { detail: { id, passed } }));
      } catch (error) {
        const words = `Python could not be started here: ${error.message} Your code is kept.`;
        report.replaceChildren(node("p", { class: "tab-lost" }, words));
      }
      status.textContent = "";
      button.removeAttribute("aria-disabled");
      box.dataset.ms = Math.round(performance.now() - began);
    }

    // Who has passed, or has seen all three hints, may see how we would write it.
    async function offerWorked() {
      const { answers, hints } = kept();
      if (!worked.hidden || !(answers[id]?.best || hints[id]?.shown === 3)) return;
      worked.hidden = false;
      worked.addEventListener("toggle", async () => {
        worked.querySelector("pre").textContent = await ask("worked", { exercise: id });
      }, { once: true });
    }

    place.addEventListener("focus", async () => {
      await open();
      editor.focus();
    });
    place.addEventListener("pointerdown", open, { once: true });
    button.addEventListener("click", check);
    reset.addEventListener("click", async () => {
      await open();
      editor.text = stub;
      editor.focus();
    });
    document.addEventListener("hinted", ({ detail }) => detail === id && offerWorked());
    place.querySelector("pre").textContent = textOf(box);
    new IntersectionObserver(([seen], observer) => {
      if (!seen.isIntersecting) return;
      observer.disconnect();
      open();
    }, { rootMargin: "200px" }).observe(box);
    offerWorked();
  }

  // ---- the page ----------------------------------------------------------------------------------

  function node(kind, attributes = {}, ...children) {
    const made = document.createElement(kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function showPassed() {
    const { answers } = kept();
    for (const el of document.querySelectorAll("[data-passed-of]")) {
      const of = el.dataset.passedOf.split(" ");
      const passed = of.filter((id) => answers[id]?.best).length;
      el.textContent = passed ? `${passed} of ${of.length} passed in this browser` : "";
    }
  }

  Object.assign(course, { recall, remember });
  document.addEventListener("DOMContentLoaded", () => {
    const isServed = location.protocol.startsWith("http");
    for (const box of boxes()) {
      if (isServed) exercise(box);
      else box.querySelector(".tab-status").textContent =
        "A page in a folder cannot run Python: serve the folder with python3 -m http.server.";
    }
    for (const el of document.querySelectorAll(".tab-take")) el.addEventListener("click", takeAlong);
    document.addEventListener("checked", showPassed);
    showPassed();
  });
})();
