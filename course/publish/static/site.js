// The site's own script, after the functions of widgets/standalone.py: widgets, theme and search.
// Every page is also opened from a folder, where a browser loads neither modules nor JSON: what
// pages share are plain scripts, which leave what they hold in `course`.

const course = { modules: {}, states: {}, sections: null };

// ---- widgets ---------------------------------------------------------------------------------

const addresses = new Map();

// The address of a module whose imports have addresses, too; each file is loaded once.
function addressOf(name) {
  if (!addresses.has(name)) addresses.set(name, makeAddress(name));
  return addresses.get(name);
}

async function makeAddress(name) {
  const pieces = course.modules[name].split(/from "\.\/(\w+)\.js"/);
  for (let at = 1; at < pieces.length; at += 2) pieces[at] = `from "${await addressOf(pieces[at])}"`;
  return URL.createObjectURL(new Blob([pieces.join("")], { type: "text/javascript" }));
}

async function draw(el, state) {
  const kind = await import(await addressOf(el.dataset.kind));
  el.replaceChildren();
  const model = createModel(course.recall?.(el.dataset.kind, state) ?? state);
  course.remember?.(el.dataset.kind, model);
  kind.default.render({ model, el });
}

async function drawAll() {
  for (const el of document.querySelectorAll("[data-widget]")) await draw(el, course.states[el.dataset.widget]);
  await drawn();
  document.documentElement.dataset.ready = "true";
}

// ---- theme -----------------------------------------------------------------------------------

function followTheme() {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () =>
    document.documentElement.classList.contains("dark") ||
    (system.matches && !document.documentElement.classList.contains("light"));
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colours`);
  };
  button.addEventListener("click", () => {
    const chosen = isDark() ? "light" : "dark";
    document.documentElement.classList.remove("light", "dark");
    document.documentElement.classList.add(chosen);
    try {
      localStorage.setItem("theme", chosen);
    } catch {
      // a browser that keeps nothing for files: the choice lasts as long as the page
    }
    label();
  });
  system.addEventListener("change", label);
  button.hidden = false;
  label();
}

// ---- search ----------------------------------------------------------------------------------

const MOST = 12;

// The sections that hold every word of the query, those with words in their headings first.
function find(sections, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const score = ({ page, heading, text }) => {
    const places = [heading.toLowerCase(), page.toLowerCase(), text.toLowerCase()];
    let sum = 0;
    for (const word of words) {
      const at = places.findIndex((place) => place.includes(word));
      if (at < 0) return 0;
      sum += [9, 3, 1][at];
    }
    return sum;
  };
  return sections
    .map((section) => [score(section), section])
    .filter(([points]) => points > 0)
    .sort((one, other) => other[0] - one[0])
    .map(([, section]) => section);
}

// The text around the first of the words.
function excerpt(text, query) {
  const word = query.toLowerCase().split(/\s+/).find((each) => text.toLowerCase().includes(each));
  const at = word ? text.toLowerCase().indexOf(word) : 0;
  const from = at < 60 ? 0 : text.lastIndexOf(" ", at - 40) + 1;
  return `${from ? "…" : ""}${text.slice(from, from + 130)}${text.length > from + 130 ? "…" : ""}`;
}

function offerSearch() {
  const box = document.getElementById("search");
  const results = document.getElementById("results");
  const count = document.getElementById("found");
  const root = document.documentElement.dataset.root;
  const show = () => {
    const query = box.value.trim();
    results.replaceChildren();
    results.hidden = !query;
    count.textContent = "";
    if (!query || !course.sections) return;
    const found = find(course.sections, query);
    count.textContent = found.length ? `${found.length} found` : "Nothing found";
    if (!found.length) results.append(Object.assign(document.createElement("p"), { textContent: "Nothing found." }));
    for (const { page, heading, address, text } of found.slice(0, MOST)) {
      const link = Object.assign(document.createElement("a"), { href: root + address });
      const add = (kind, words) => link.append(Object.assign(document.createElement(kind), { textContent: words }));
      add("strong", heading === page ? page : `${page}: ${heading}`);
      add("span", excerpt(text, query));
      results.append(link);
    }
  };
  const load = () => {
    if (document.getElementById("index")) return;
    const script = Object.assign(document.createElement("script"), {
      id: "index", src: `${root}assets/search-index.js`, onload: show,
    });
    document.head.append(script);
  };
  box.addEventListener("focus", load);
  box.addEventListener("input", show);
  box.form.addEventListener("submit", (event) => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      box.focus();
    } else if (event.key === "Escape" && box.form.contains(event.target)) {
      box.value = "";
      show();
      box.focus();
    }
  });
  results.addEventListener("click", () => {
    results.hidden = true; // a link into the same page leaves the page where it is
  });
  box.form.hidden = false;
}

// ---- the page --------------------------------------------------------------------------------

// On a narrow page the list of lessons stands above the text: folded, until it is asked for.
function foldList() {
  const narrow = window.matchMedia("(max-width: 1000px)");
  const list = document.querySelector(".side details");
  const fold = () => {
    if (list) list.open = !narrow.matches;
  };
  narrow.addEventListener("change", fold);
  fold();
}

// What is wider than its place can be scrolled by keys, and only that is a Tab stop.
function reachWide() {
  for (const el of document.querySelectorAll("main pre, .prose table, .moving")) {
    if (el.scrollWidth > el.clientWidth) el.tabIndex = 0;
    else el.removeAttribute("tabindex");
  }
}

document.addEventListener("DOMContentLoaded", () => {
  foldList();
  reachWide();
  window.addEventListener("resize", reachWide);
  followTheme();
  offerSearch();
  drawAll();
});
