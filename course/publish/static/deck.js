// The deck: arrow keys turn slides, unless a picture or a field has the focus and keeps its own.
(() => {
  const DOWN = 40, UP = 38;
  const deck = new Reveal({
    width: 1920, height: 1080, margin: 0, minScale: 0.1, maxScale: 4, center: false, hash: true,
    transition: "none", backgroundTransition: "none", slideNumber: "c/t", controlsTutorial: false,
    viewDistance: 1, keyboard: { [DOWN]: () => scroll(1), [UP]: () => scroll(-1) },
    defaultTiming: 0, plugins: [RevealNotes],
  });

  // A picture or a task taller than its slide is moved a part at a time.
  function scroll(way) {
    const frame = deck.getCurrentSlide().querySelector(".sd-frame");
    frame?.scrollBy({ top: way * frame.clientHeight * 0.6 });
  }

  function sayMore(slide) {
    const frame = slide.querySelector(".sd-frame");
    if (!frame) return;
    const rest = frame.scrollHeight - frame.clientHeight - frame.scrollTop;
    slide.querySelector(".sd-more").hidden = rest < 4;
  }

  // Each bar is as long as its option's part of all hands.
  function countHands(options) {
    const fields = [...options.querySelectorAll("input")];
    const hands = fields.map((field) => Math.max(0, Number(field.value) || 0));
    const all = hands.reduce((sum, each) => sum + each, 0);
    fields.forEach((field, at) => {
      const part = all ? (70 * hands[at]) / all : 0;
      field.previousElementSibling.style.setProperty("--part", part.toFixed(1));
    });
  }

  // Escape leaves a frame or a field; the arrow keys turn slides again.
  document.addEventListener("keydown", (event) => {
    const at = document.activeElement;
    if (event.key !== "Escape" || !at || !at.closest(".sd-frame, .sd-options")) return;
    at.blur();
    event.stopPropagation();
    event.preventDefault();
  }, true);
  for (const options of document.querySelectorAll(".sd-options")) {
    options.addEventListener("input", () => countHands(options));
  }
  for (const frame of document.querySelectorAll(".sd-frame")) {
    const slide = frame.closest("section");
    frame.addEventListener("scroll", () => sayMore(slide));
    const resized = new ResizeObserver(() => sayMore(slide));
    resized.observe(frame);
    resized.observe(frame.firstElementChild);
  }
  // Tab leads into the slide shown, wherever the focus was before.
  deck.on("slidechanged", ({ currentSlide }) => {
    currentSlide.focus({ preventScroll: true });
    sayMore(currentSlide);
  });
  window.deck = deck;
  deck.initialize();
})();
