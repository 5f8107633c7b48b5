// Numbers and lists as words, the same in every widget.

// 1234567 -> "1,234,567"
export function number(value) {
  const [whole, fraction] = String(value).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

export function count(value, noun) {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}

// "the reference" -> "The reference"
export function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

// ["a", "b", "c"] -> "a, b and c"
export function listed(items) {
  if (items.length < 2) return items.join("");
  return `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}`;
}

// "request 3", "requests 3, 5 and 8"
export function named(noun, ids) {
  return `${noun}${ids.length === 1 ? "" : "s"} ${listed(ids.map(String))}`;
}

// Microseconds for people: 850 -> "0.85 ms", 6100 -> "6.1 ms", 1234567 -> "1.23 s"
export function duration(us) {
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  const ms = us / 1000;
  if (ms === 0) return "0 ms";
  return `${number(ms.toFixed(ms >= 100 ? 0 : ms >= 1 ? 1 : ms >= 0.1 ? 2 : 3))} ms`;
}

// [0, 1, 2, 5, 7, 8] -> "0 to 2, 5, 7 and 8"
export function ranges(numbers) {
  const runs = [];
  for (const value of numbers) {
    const last = runs[runs.length - 1];
    if (last && value === last.end + 1) last.end = value;
    else runs.push({ start: value, end: value });
  }
  return listed(
    runs.flatMap(({ start, end }) => {
      if (end === start) return [`${start}`];
      return end === start + 1 ? [`${start}`, `${end}`] : [`${start} to ${end}`];
    }),
  );
}

export function clockWords(clock) {
  return `${clock.modelled ? "modelled" : "measured"}: ${clock.name}`;
}
