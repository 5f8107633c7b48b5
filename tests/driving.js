/* What the browser tests evaluate in a page; driving.py takes each by its name. */

// What of our own elements leaves the page, or holds more than fits into it.
const TOO_WIDE = (all) => all
    .filter((each) => each.getBoundingClientRect().right > window.innerWidth
        || each.scrollWidth > each.clientWidth)
    .map((each) => each.className);

// Tables and printed text that end outside the page, where nothing can be scrolled to reach them.
const CUT_OFF = (all) => all.filter((each) => {
    if (each.getBoundingClientRect().right <= window.innerWidth) return false;
    for (let box = each; box && box.id !== "App"; box = box.parentElement) {
        if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
    }
    return true;
}).map((each) => each.textContent.slice(0, 40));

// Outputs that take the wheel from the page, or hide more than a rounded pixel or two below.
const SCROLLS_OR_HIDES = (all) => all.filter((each) => {
    const below = each.scrollHeight - each.clientHeight;
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(each).overflowY);
    return scrolls ? below > 0 : below > 2;
}).map((each) => [each.id, each.scrollHeight, each.clientHeight]);

// The words of pictures that lie outside their picture, where they are not drawn.
const OUTSIDE = (pictures) => pictures.flatMap((picture) => {
    if (getComputedStyle(picture).overflow === "visible") return [];
    const frame = picture.getBoundingClientRect();
    return [...picture.querySelectorAll("text")].filter((text) => {
        if (!text.checkVisibility({opacityProperty: true})) return false;
        const at = text.getBoundingClientRect();
        return at.left < frame.left - 1 || at.right > frame.right + 1
            || at.top < frame.top - 2 || at.bottom > frame.bottom + 2;
    }).map((text) => text.textContent);
});

// Puts every player of the page at a part of its way.
const MOVE = (part) => {
    for (const at of document.querySelectorAll(".sn-toolbar .sn-travel .sn-scrubber")) {
        at.value = String(Math.round(part * at.max));
        at.dispatchEvent(new Event("input"));
    }
};

// What waits for a prediction as HTML: [key, whether it is to be seen].
const WAITING = () => [...document.querySelectorAll("[data-sn-after]")].map(
    (each) => [each.dataset.snAfter, each.querySelector(".sng-withheld").checkVisibility()]);

// Until fonts are there and two frames are alike; what moves for ever is looked at all the same.
const AT_REST = async () => {
    const places = (root) => [...root.querySelectorAll("*")].flatMap((each) => {
        const {x, y, width, height} = each.getBoundingClientRect();
        return [x, y, width, height, ...(each.shadowRoot ? places(each.shadowRoot) : [])];
    });
    await document.fonts.ready;
    for (let frame = 0, before, now; frame < 120 && !(now && now === before); frame += 1) {
        await new Promise(requestAnimationFrame);
        [before, now] = [now, String(places(document))];
    }
};

// How many Tab stops there are.
const STOPS = (all) => all.filter((each) => each.tabIndex === 0).length;

// How many rules the page keeps, and those that it breaks, each with the first element that does.
const AXE = async ([context, options]) => {
    const found = await axe.run(context ?? document, options);
    return [found.passes.length, found.violations.map(({id, nodes}) => [id, nodes[0].html])];
};

// What our own elements are, whatever the theme: their markup, and how large it is drawn.
const SHAPES = (all) => all.map((each) => [
    each.outerHTML.replaceAll(/ data-theme="\w+"/g, ""), each.clientWidth, each.clientHeight]);

// The selectors of the page's rules that have a :has() in them, which are slow.
const SELECTORS_WITH_HAS = () => {
  const inside = (rules) => [...rules].flatMap((rule) => [
    ...(rule.selectorText?.includes(":has(") ? [rule.selectorText] : []),
    ...inside(rule.cssRules ?? []),
  ]);
  return [...document.styleSheets].flatMap((sheet) => inside(sheet.cssRules));
};

// What of the slide shown leaves it, and every piece of its text that is smaller than 24 px. What a
// tall picture or task keeps below its frame is reached by scrolling the frame, which `unreached` watches.
const SLIDE_FAULTS = () => {
    const slide = deck.getCurrentSlide(), outside = [], small = [], unreached = [];
    const frame = slide.querySelector(".sd-frame");
    const room = slide.getBoundingClientRect();
    for (const each of slide.querySelectorAll("*")) {
        if (each.closest(".notes") || !each.checkVisibility({visibilityProperty: true})) continue;
        const at = each.getBoundingClientRect();
        if (at.width === 0 || (each.closest(".sn-scroll, svg") && each.tagName !== "svg")) continue;
        if (frame && frame !== each && frame.contains(each)) continue;
        if (at.right > room.right - 30 || at.bottom > room.bottom || at.left < room.left)
            outside.push(each.className || each.tagName);
        if (each.scrollWidth > each.clientWidth + 1 && !["visible", "clip"].includes(
            getComputedStyle(each).overflowX)) outside.push(`wide ${each.className}`);
    }
    const words = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
        const at = words.currentNode.parentElement, said = words.currentNode.textContent.trim();
        if (!said || at.closest(".notes")) continue;
        if (!at.checkVisibility({visibilityProperty: true})) continue;
        const svg = at.closest("svg"), drawn = svg?.viewBox.baseVal.width;
        const scale = drawn ? svg.getBoundingClientRect().width / drawn : at.currentCSSZoom;
        const px = parseFloat(getComputedStyle(at).fontSize) * scale;
        if (px < 23.9) small.push(`${said.slice(0, 30)}: ${px}`);
    }
    if (frame) {
        const rest = frame.scrollHeight - frame.clientHeight;
        const hint = slide.querySelector(".sd-more");
        if (hint.hidden !== rest < 4) unreached.push("the hint");
        if (frame.scrollWidth > frame.clientWidth) unreached.push("to the right");
    }
    return {outside, small, unreached};
};

// Resolves when the slide shown has been drawn, and drawn again at its size.
const SLIDE_IS_DRAWN = () => new Promise((drawn) => {
    let frames = 4;
    const next = () => (--frames ? requestAnimationFrame(next) : setTimeout(drawn));
    next();
});

// The texts of the live room's screen that are smaller than 24 px.
const SMALL_TEXTS = () => {
  const main = document.querySelector("main");
  const sizes = [];
  const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const at = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !at.checkVisibility()) continue;
    if (at.closest("dialog, option, .badge")) continue;
    const size = parseFloat(getComputedStyle(at).fontSize) * main.currentCSSZoom;
    sizes.push([size, at.outerHTML.slice(0, 90)]);
  }
  return sizes.filter(([size]) => size < 24);
};

// What has the focus, through shadow roots: [class, name].
const FOCUSED = () => {
    let at = document.activeElement;
    while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    return [at.className, at.getAttribute("aria-label") ?? at.textContent];
};

// Whether the frame of the editor with the focus says how to leave it.
const TELLS_THE_WAY_OUT = () =>
    getComputedStyle(document.activeElement.closest(".cm-editor"), "::after").content
    === '"Esc, then Tab: go on"';

// What stands in the lesson's column by its kind, each as [left, right]; what is not shown is not.
const COLUMN = () => {
    const within = (root) => [...root.querySelectorAll("*")].flatMap(
        (each) => each.shadowRoot && !each.matches("marimo-slider")  // whose label is no text
            ? [each, ...within(each.shadowRoot)] : [each]);
    const all = within(document.querySelector("[data-testid=cell-column]"));
    const kinds = {
        text: ".markdown > :is(.paragraph, h1, h2)", card: ".sng-task, .sng-report, .sng-loop",
        picture: ".sn, .sng-figure", code: "[data-testid=cell-editor]",
    };
    return Object.fromEntries(Object.entries(kinds).map(([kind, selector]) => [kind,
        all.filter((each) => each.matches(selector)).map((each) => each.getBoundingClientRect())
            .filter((box) => box.width).map((box) => [box.left, box.right])]));
};

// How many boxes stand right below another one that waits for the same prediction.
const IN_ROWS = () => {
    const key = (each) => each.dataset.after ?? each.parentElement.dataset.snAfter;
    const inside = (root) => [...root.querySelectorAll("*")].flatMap((each) => [
        ...(each.matches(".sn-waits, .sng-waits")
            ? [[key(each), each.getBoundingClientRect()]] : []),
        ...(each.shadowRoot ? inside(each.shadowRoot) : [])]);
    const shown = inside(document).filter(([, {height}]) => height);
    return shown.filter(([key, {top}], at) => at && shown[at - 1][0] === key
        && Math.abs(top - shown[at - 1][1].bottom) < 56).length;
};

// The mean number of letters in a line of each long paragraph.
const TEXT_LINES = (all) => all.filter(
    (each) => each.checkVisibility() && each.textContent.length > 300
).map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.bottom / 8)));
    return each.textContent.length / lines.size;
});

// Whether a websocket says anything: "message", or "closed" without a word.
const SOCKET_SAYS = ([address, words]) => new Promise((answer) => {
    const socket = new WebSocket(address);
    socket.onopen = () => words && socket.send(words);
    socket.onmessage = () => { answer("message"); socket.close(); };
    socket.onclose = () => answer("closed");
});

// What reaches out of its widget although nothing between the two scrolls. Words on an SVG may lie
// in its label's room.
const OUT_OF_WIDGET = () => [...document.querySelectorAll(".sn")].flatMap((root) => {
    const edge = root.getBoundingClientRect();
    const scrolls = (each) => {
        for (let box = each.parentElement; box && box !== root; box = box.parentElement) {
            if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return true;
        }
        return false;
    };
    const out = [...root.querySelectorAll("*")].filter((each) =>
        each.getBoundingClientRect().right > edge.right + 0.5 && !scrolls(each)
        && getComputedStyle(each).position !== "absolute");
    if (root.scrollWidth > root.clientWidth) out.push(root);
    return out.map((each) => `${root.className}: ${each.tagName} ${each.getAttribute("class")}`);
});

// Puts a button before all widgets and one behind them; the first has the focus.
const DOORS = () => {
    const main = document.querySelector("main");
    for (const [id, put] of [["before", "prepend"], ["after", "append"]]) {
        const door = document.createElement("button");
        door.id = id;
        main[put](door);
    }
    document.getElementById("before").focus();
};

// Takes away what no player moves: it looks the same wherever players stand.
const LEAVE_WHAT_MOVES = (all) => all
    .filter((each) => !each.querySelector(".sn-toolbar .sn-travel .sn-scrubber"))
    .forEach((each) => each.closest(".widget").remove());

// Every word that is seen, with a block of its colour in its place; `paint(mode)` shows the page as
// it is ("words"), with the blocks ("blocks"), or with neither ("bare"; a halo stays).
const PAINTABLE = () => {
    const seen = (text) => text.textContent.trim() && text.checkVisibility(
        { opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true });
    const words = [...document.querySelectorAll(".sn svg text")].filter(seen);
    const places = words.map((text) => {
        const frame = text.closest("svg").getBoundingClientRect();
        const clip = text.closest(".sn-scroll")?.getBoundingClientRect() ?? frame;
        const at = text.getBoundingClientRect();
        const left = Math.max(at.left, clip.left, frame.left);
        const right = Math.min(at.right, clip.right, frame.right);
        const root = text.closest(".sn");
        return {
            left: left + scrollX, right: right + scrollX, top: at.top + scrollY,
            bottom: at.bottom + scrollY, words: text.textContent,
            where: `${root.className} .${text.getAttribute("class")}`,
        };
    });
    const blocks = words.map((text) => {
        const block = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        const { x, y, width, height } = text.getBBox();
        const style = getComputedStyle(text);
        for (const [name, value] of Object.entries({ x, y, width, height })) {
            block.setAttribute(name, value);
        }
        const turned = text.getAttribute("transform");
        if (turned) block.setAttribute("transform", turned);
        block.style.cssText = `fill: ${style.fill}; fill-opacity: ${style.fillOpacity};`
            + `opacity: ${style.opacity}; stroke: none; visibility: hidden; transition: none`;
        text.after(block);
        return block;
    });
    window.paint = (mode) => words.forEach((text, at) => {
        text.style.fillOpacity = mode === "words" ? "" : "0";
        blocks[at].style.visibility = mode === "blocks" ? "visible" : "hidden";
    });
    window.unpaint = () => {
        window.paint("words");
        blocks.forEach((block) => block.remove());
    };
    return places;
};

// A widget is drawn and taken away again: [it was there, and what it leaves behind].
const TAKEN_AWAY = async ([source, state]) => {
    let listening = 0;
    const watched = (original, change) => (type, ...rest) => {
        if (type === "serving-nanogpt-step") listening += change;
        return original.call(window, type, ...rest);
    };
    window.addEventListener = watched(window.addEventListener, 1);
    window.removeEventListener = watched(window.removeEventListener, -1);
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const { default: widget } = await import(address);
    const calls = new Set();
    const model = {
        get: (name) => state[name], set() {}, save_changes() {},
        on: (name, call) => calls.add(call), off: (name, call) => calls.delete(call),
    };
    const el = document.createElement("div");
    document.body.append(el);
    const cleanup = widget.render({ model, el });
    const before = listening + calls.size + el.children.length;
    cleanup();
    return [before > 1, listening, calls.size, el.children.length];
};
