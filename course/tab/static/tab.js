// Exercises on a page of the site: an editor each, checked by Python in a worker of this browser.
// What a reader writes stays in localStorage.

(() => {
  const KEPT = "serving-nanogpt";
  const SILENT_S = 6; // each call has a limit of its own, and a check gives signs of life meanwhile
  const REPLAY_S = 30; // a run of the installed course may take 10
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
  async function ask(name, args, most = SILENT_S) {
    const interpreter = python();
    await interpreter.ready;
    const watch = setInterval(() => {
      if (interpreter.silent() > most) interpreter.end(new Lost("It was stopped.", most));
    }, 250);
    try {
      return await interpreter.call(name, args);
    } finally {
      clearInterval(watch);
      python();
      spare ??= startPython(() => {});
    }
  }

  // ---- pictures ----------------------------------------------------------------------------------

  let reading = null;
  let turn = 0;

  const lesson = () => (reading ??= readLesson());

  // The generated tokens of the runs that are shown, by request: they depend on no schedule.
  function recordedTexts() {
    const texts = {};
    const runs = [...document.querySelectorAll("[data-cell] [data-widget]")]
      .flatMap((el) => Object.values(course.states[el.dataset.widget] ?? {}))
      .filter((each) => each?.requests && each.steps);
    for (const { requests, steps } of runs) {
      for (const { id, prompt_tokens } of requests) {
        if (texts[id]) continue;
        const work = steps.flatMap((step) => step.work).filter((each) => each.request_id === id);
        const made = work.flatMap((each) => [...(each.drafted ?? []).slice(0, each.num_accepted), each.sampled]);
        texts[id] = [...prompt_tokens, ...made.filter((token) => token !== null)];
      }
    }
    return texts;
  }

  // What earlier checks of this lesson have found, and answers that passed in other lessons.
  function answersSoFar(setup) {
    const { answers } = kept();
    const mine = ids();
    const written = mine.filter((id) => answers[id]?.ran).map((id) => [id, answers[id].status]);
    const whole = Object.entries(answers).filter(([id, each]) => each.whole && !mine.includes(id));
    return {
      text: lessonText(setup, (box) => answers[box.dataset.exercise]?.ran ?? box.dataset.stub),
      written: Object.fromEntries(written),
      passed: Object.fromEntries(whole.map(([id, each]) => [id, each.whole])),
    };
  }

  // The lesson's cells by place: what must have run before a cell, and the answers that it is of.
  async function readLesson() {
    const stem = location.pathname.split("/").pop().replace(".html", "");
    const { setup, cells } = await (await fetch(new URL(`tab/${stem}.json`, here))).json();
    const giver = {};
    for (const [place, cell] of Object.entries(cells)) {
      const givers = cell.takes.map((name) => giver[name]);
      cell.place = place;
      cell.above = [...new Set(givers.flatMap((each) => [...cells[each].above, each]))];
      for (const name of cell.gives) giver[name] = place;
    }
    return { setup, cells, texts: recordedTexts() };
  }

  // Draws anew what shows the answer to an exercise. A check that begins meanwhile goes first.
  async function replay(id) {
    turn += 1;
    const mine = turn;
    const { setup, cells, texts } = await lesson();
    for (const frame of document.querySelectorAll("[data-cell]")) {
      const cell = cells[frame.dataset.cell];
      if (!cell.of.includes(id)) continue;
      if (mine !== turn) return;
      const { passed, ...answers } = answersSoFar(setup);
      const run = [...cell.above.map((each) => cells[each]), cell];
      const found = await ask("replay", { setup, texts, passed, shown: { cells: run, ...answers } }, REPLAY_S);
      if (mine === turn) await show(frame, found);
    }
    document.documentElement.dataset.replayed = id;
  }

  async function show(frame, found) {
    frame.querySelector(".tab-as-published")?.remove();
    frame.dataset.published ??= frame.querySelector("[data-widget]")?.dataset.widget ?? "";
    if (!found) {
      const words = "This is still the reference's: with your function, only the installed course can show it.";
      frame.append(node("p", { class: "tab-as-published" }, words));
    } else if (found.kind) {
      const el = node("div", { class: "picture", "data-kind": found.kind });
      frame.replaceChildren(node("div", { class: "shown" }, el));
      await draw(el, { ...course.states[frame.dataset.published], ...found.state });
    } else {
      const el = node("div", { class: "prose" });
      el.innerHTML = found.html;
      for (const drawn of el.querySelectorAll("[data-figure]")) drawn.replaceWith(...figure(JSON.parse(drawn.textContent)));
      for (const text of el.querySelectorAll("[data-markdown]")) text.innerHTML = markdown(text.textContent);
      frame.replaceChildren(el);
    }
  }

  // Paragraphs and tables, with `code`, **bold** and HTML in them: what lessons write of a run.
  function markdown(text) {
    const escape = (code) => code.replace(/&/g, "&amp;").replace(/</g, "&lt;");
    const inline = (line) => line.split(/`([^`]+)`/).map((part, at) => (at % 2
      ? `<code>${escape(part)}</code>`
      : part.replace(/\*\*(.+?)\*\*/g, "<strong>$1</strong>"))).join("");
    const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((each) => each.trim());
    const table = ([head, marks, ...rows]) => {
      const sides = cells(marks).map((mark) => (mark.endsWith(":") ? "right" : "left"));
      const row = (kind) => (line) =>
        `<tr>${cells(line).map((each, at) => `<${kind} style="text-align: ${sides[at]}">${inline(each)}</${kind}>`).join("")}</tr>`;
      return `<table><thead>${row("th")(head)}</thead><tbody>${rows.map(row("td")).join("")}</tbody></table>`;
    };
    const blocks = text.trim().split(/\n\s*\n/).map((block) => block.trim().split("\n"));
    return blocks.map((lines) => (lines[0].startsWith("|") ? table(lines) : `<p>${inline(lines.join(" "))}</p>`)).join("");
  }

  // ---- figures -----------------------------------------------------------------------------------

  const DASHES = ["", "6 2", "2 2", "8 2 2 2", "4 1.5 1 1.5", "10 3", "1 1.5", "6 2 6 2 1 2"];
  const html = (kind, attributes, ...children) => node(kind, attributes, ...children.flat());
  const number = (value) => Number(value.toPrecision(3)).toLocaleString("en");

  // What course/figure.py draws with matplotlib: a caption, panels, a legend and the numbers.
  function figure({ title, source, axes }) {
    const names = [...new Set(axes.flatMap((panel) => Object.keys(panel.curves)))];
    const place = (name) => names.indexOf(name);
    const style = (name) =>
      `fill:none;stroke:var(--fig-hue-${place(name)});stroke-width:1.8;stroke-dasharray:${DASHES[place(name)] || "none"}`;
    const sample = (name) => svg("svg", { width: 32, height: 12, "aria-hidden": "true" }, svg("path", { d: "M0 6h32", style: style(name) }));
    return [
      html("figcaption", {}, html("span", {}, title), source ? html("span", { class: "sng-fig-source" }, source) : []),
      html("div", { class: "sng-fig-panels" }, axes.map((panel) => {
        const words = Object.entries(panel.curves).map(([name, { points }]) => `${name}: ${said(points)}.`);
        const label = `${title}. ${panel.y} against ${panel.x}. ${words.join(" ")}`;
        const alone = axes.length === 1 ? " sng-fig-alone" : "";
        return html("div", { class: `sng-fig-panel${alone}`, role: "img", "aria-label": label }, chart(panel, style, place, axes.length));
      })),
      html("ul", {}, names.map((name) => html("li", {}, sample(name), name))),
      html("details", {}, html("summary", {}, "The numbers"), html("div", { class: "sng-fig-numbers" }, axes.map(numbers))),
    ];
  }

  const said = (points) =>
    [points[0], points.at(-1)].map(([x, y]) => `${number(y)} at ${number(x)}`).join(", ");

  function svg(kind, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // About five round values from the least to the most.
  function ticks(least, most) {
    const rough = (most - least) / 5 || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
    const first = Math.ceil(least / step);
    return Array.from({ length: Math.floor(most / step) - first + 1 }, (_, at) => (first + at) * step);
  }

  function chart({ curves, marks, x, y, log_x }, style, place, panels) {
    const [width, height, left, right, top, bottom] = [panels === 1 ? 461 : 288, 225, 50, 14, 26, 38];
    const scale = log_x ? Math.log2 : (value) => value;
    const points = Object.values(curves).flatMap((curve) => curve.points);
    const xs = [...points.map((each) => each[0]), ...marks.flatMap(([, at]) => at ?? [])].map(scale);
    const ys = [...points.map((each) => each[1]), ...marks.flatMap(([, , at]) => at ?? [])];
    const beside = (Math.max(...xs) - Math.min(...xs)) * 0.04 || 1;
    const [x0, x1] = [Math.min(...xs) - beside, Math.max(...xs) + beside];
    const [y0, y1] = [Math.min(0, ...ys), Math.max(...ys) * 1.05 || 1];
    const across = (value) => left + ((scale(value) - x0) / (x1 - x0 || 1)) * (width - left - right);
    const up = (value) => height - bottom - ((value - y0) / (y1 - y0)) * (height - top - bottom);
    const text = (words, attributes) => svg("text", { style: "font-size:9.5px;fill:var(--fig-soft)", ...attributes }, words);
    const line = (d, stroke) => svg("path", { d, style: stroke });
    const grid = "stroke:var(--fig-grid);stroke-width:0.8";
    const quiet = "stroke:var(--fig-soft);stroke-width:1.2;stroke-dasharray:4 3";
    const at = (log_x ? ticks(x0, x1).map((each) => 2 ** each) : ticks(x0, x1));
    const path = ({ points: of, drawstyle }) => of
      .map(([px, py], nth) => (nth ? `${drawstyle ? `H${across(px)}V` : `L${across(px)} `}${up(py)}` : `M${across(px)} ${up(py)}`)).join("");
    const dots = (name, { points: of, linestyle, marker }) => (of.length > 40 || (marker === "none" && linestyle !== "none") ? [] : of
      .map(([px, py]) => svg("circle", { cx: across(px), cy: up(py), r: 2.8, style: `fill:var(--fig-hue-${place(name)})` })));
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      ...ticks(y0, y1).flatMap((value) => [
        line(`M${left} ${up(value)}H${width - right}`, grid),
        text(number(value), { x: left - 6, y: up(value) + 3, "text-anchor": "end" }),
      ]),
      line(`M${left} ${top}V${height - bottom}H${width - right}`, "fill:none;stroke:var(--fig-soft);stroke-width:0.8"),
      ...at.map((value) => text(number(value), { x: across(value), y: height - bottom + 15, "text-anchor": "middle" })),
      text(y, { x: left, y: 12 }),
      text(x, { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }),
      ...marks.flatMap(([name, mx, my]) => (my === null
        ? [line(`M${across(mx)} ${top}V${height - bottom}`, quiet), text(name, { x: across(mx) + 3, y: top + 10 })]
        : [line(`M${left} ${up(my)}H${width - right}`, quiet), text(name, { x: width - right, y: up(my) - 4, "text-anchor": "end" })])),
      ...Object.entries(curves).flatMap(([name, curve]) => [
        ...(curve.linestyle === "none" ? [] : [line(path(curve), style(name))]), ...dots(name, curve),
      ]));
  }

  function numbers({ curves, x, y }) {
    const values = Object.values(curves).map(({ points }) => new Map(points));
    const xs = [...new Set(values.flatMap((each) => [...each.keys()]))].sort((one, other) => one - other);
    const few = xs.filter((_, at) => at % Math.ceil(xs.length / 14) === 0);
    const row = (kind, [first, ...rest]) => html("tr", {}, html("th", { scope: kind === "th" ? "col" : "row" }, first),
      rest.map((each) => html(kind, kind === "th" ? { scope: "col" } : {}, each)));
    return html("table", {}, html("thead", {}, row("th", [`${x}: ${y}`, ...Object.keys(curves)])),
      html("tbody", {}, few.map((at) => row("td", [number(at), ...values.map((each) => (each.has(at) ? number(each.get(at)) : ""))]))));
  }

  // ---- an exercise -------------------------------------------------------------------------------

  const boxes = () => [...document.querySelectorAll(".tab-exercise")];
  const ids = () => boxes().map((box) => box.dataset.exercise);
  const textOf = (box) => kept().answers[box.dataset.exercise]?.text ?? box.dataset.stub;

  // The lesson as the reader has written it so far: answers may call each other.
  function lessonText(setup, of = textOf) {
    return [setup, ...boxes().map(of)].join("\n\n\n# %%\n");
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
      lesson();
      began.ready.then(done, done);
    }

    async function judged() {
      try {
        return await ask("check", { exercise: id, text: lessonText((await lesson()).setup) });
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
        const ran = ["passed", "failed", "raised"].includes(found.status);
        if (found.status !== "not_started") save({ text, passed, ...(passed && { best: text, whole: found.whole }) });
        save({ ran: ran ? text : null, status: found.status });
        await offerWorked();
        replay(id);
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
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((each) => each.isIntersecting)) return;
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
