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
