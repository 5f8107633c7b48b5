// Exercises on a page of the site: an editor each, checked by Python in a worker of this browser.
// What a reader writes stays in localStorage.

const tab = (() => {
  const KEPT = "serving-nanogpt";
  const SILENT_MS = 6000; // a check without a sign of life is ended: each call has a limit of its own
  const here = new URL(document.documentElement.dataset.root || ".", location.href);

  // ---- what is kept ------------------------------------------------------------------------------

  function keep(change) {
    const kept = { answers: {}, predictions: {}, ...JSON.parse(localStorage.getItem(KEPT) ?? "{}") };
    if (change) {
      change(kept);
      localStorage.setItem(KEPT, JSON.stringify(kept));
    }
    return kept;
  }

  function takeAlong() {
    const blob = new Blob([JSON.stringify(keep(), null, 1)], { type: "application/json" });
    const link = node("a", { href: URL.createObjectURL(blob), download: "serving-nanogpt.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function node(kind, attributes = {}, ...children) {
    const made = document.createElement(kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // ---- Python ------------------------------------------------------------------------------------

  // One interpreter in a worker. `tell` hears which share of it is loaded.
  function startPython(tell) {
    const worker = new Worker(new URL("tab/worker.js", here), { type: "module" });
    const waiting = new Map();
    let heard = 0;
    let last = 0;
    const end = (why) => {
      worker.terminate();
      for (const { reject } of waiting.values()) reject(new Error(why));
      waiting.clear();
    };
    worker.onmessage = ({ data }) => {
      heard = performance.now();
      if (data.share !== undefined) tell(data.share);
      const { resolve, reject } = waiting.get(data.id) ?? {};
      waiting.delete(data.id);
      if (data.error) reject?.(new Error(data.error));
      else resolve?.(data.value);
    };
    worker.onerror = (event) => end(event.message || "The interpreter ended.");
    const call = (name, args = {}) =>
      new Promise((resolve, reject) => {
        last += 1;
        const id = last;
        heard = performance.now();
        waiting.set(id, { resolve, reject });
        worker.postMessage({ id, name, args });
      });
    return { call, end, ready: call("ready"), silent: () => performance.now() - heard > SILENT_MS };
  }

  let current = null;
  let spare = null;
  let loading = () => {};

  function python() {
    current ??= spare ?? startPython((share) => loading(share));
    if (current === spare) spare = null;
    return current;
  }

  // Calls a function of course/tab/in_page.py. Raises: an Error with a sentence.
  async function ask(name, args) {
    const interpreter = python();
    await interpreter.ready;
    spare ??= startPython(() => {});
    const watch = setInterval(() => interpreter.silent() && replaced(), 250);
    const replaced = (why = `It gave no sign of life for ${SILENT_MS / 1000} s and was stopped.`) => {
      if (current === interpreter) current = null;
      interpreter.end(why);
    };
    try {
      return await interpreter.call(name, args);
    } catch (error) {
      replaced(); // whatever state it is in, the next check begins with a fresh one
      throw error;
    } finally {
      clearInterval(watch);
    }
  }

  // ---- an exercise -------------------------------------------------------------------------------

  function exercise(box) {
    const { exercise: id, prelude } = box.dataset;
    const [place, button, reset, status, bar, report, worked] = [
      ".tab-code", ".tab-check", ".tab-reset", ".tab-status", "progress", ".tab-report", ".tab-worked",
    ].map((each) => box.querySelector(each));
    const stub = JSON.parse(box.dataset.stub);
    let editor = null;

    const text = () => keep().answers[id]?.text ?? stub;
    const save = (change) =>
      keep((kept) => {
        kept.answers[id] = { ...kept.answers[id], ...change };
      });

    async function open() {
      if (editor) return;
      const { createEditor } = await import(new URL("tab/editor.js", here));
      if (editor) return;
      place.replaceChildren();
      editor = createEditor(place, {
        text: text(),
        label: `Your code: ${id.split(".")[1]}`,
        check,
        leave: () => button.focus(),
        changed: (now) => save({ text: now }),
      });
      place.addEventListener("focusin", warm, { once: true });
      place.removeAttribute("tabindex");
    }

    function warm() {
      loading = (share) => {
        bar.hidden = share >= 1;
        bar.value = share;
        status.textContent = share < 1 ? "Loading Python" : "";
      };
      python().ready.then(() => {
        bar.hidden = true;
        status.textContent = "";
      }, () => {});
    }

    async function check() {
      warm();
      button.setAttribute("aria-disabled", "true");
      const began = performance.now();
      status.textContent = "Checking";
      try {
        const { answers } = keep();
        const others = Object.entries(answers).filter(([each]) => each !== id).map(([each, it]) => [each, it.text]);
        const found = await ask("check", { exercise: id, text: editor?.text ?? text(), prelude, others });
        report.innerHTML = found.html;
        const passed = found.status === "passed";
        if (passed) save({ text: editor?.text ?? text(), passed: true, ever: true });
        else if (found.status !== "not_started") save({ text: editor?.text ?? text(), passed: false });
        if (passed) await offerWorked();
        document.dispatchEvent(new CustomEvent("checked", { detail: { id, passed } }));
      } catch (error) {
        report.replaceChildren(node("p", { class: "tab-lost" }, `${error.message} Python has started anew; your code is kept.`));
      }
      status.textContent = "";
      button.removeAttribute("aria-disabled");
      box.dataset.ms = Math.round(performance.now() - began);
    }

    async function offerWorked() {
      if (!worked.hidden) return;
      worked.querySelector("pre").textContent = await ask("worked", { exercise: id });
      worked.hidden = false;
    }

    place.addEventListener("focus", async () => {
      await open();
      editor.focus();
    });
    button.addEventListener("click", async () => {
      await open();
      if (!button.hasAttribute("aria-disabled")) check();
    });
    reset.addEventListener("click", async () => {
      await open();
      editor.text = stub;
      editor.focus();
    });
    new IntersectionObserver(([seen], observer) => {
      if (!seen.isIntersecting) return;
      observer.disconnect();
      open();
    }, { rootMargin: "200px" }).observe(box);
    if (keep().answers[id]?.text !== undefined) place.querySelector("pre").textContent = text();
  }

  // ---- the page ----------------------------------------------------------------------------------

  function showPassed() {
    const { answers } = keep();
    for (const el of document.querySelectorAll("[data-passed-of]")) {
      const ids = el.dataset.passedOf.split(" ");
      const passed = ids.filter((id) => answers[id]?.ever).length;
      el.textContent = passed ? `${passed} of ${ids.length} passed in this browser` : "";
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const served = location.protocol.startsWith("http");
    for (const box of document.querySelectorAll(".tab-exercise")) {
      if (served) exercise(box);
      else box.querySelector(".tab-status").textContent =
        "A page in a folder cannot run Python: serve the folder with python3 -m http.server.";
    }
    for (const el of document.querySelectorAll(".tab-take")) el.addEventListener("click", takeAlong);
    document.addEventListener("checked", showPassed);
    showPassed();
  });

  return { keep };
})();
