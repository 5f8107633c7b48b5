// Chances, their overlap, and what decides about a draft: pure functions of p, q and the outcomes.

// What is missing where the draft proposes too seldom, as shares of 1; zeros where nothing is.
export function missing(p, q) {
  const over = p.map((chance, token) => Math.max(0, chance - q[token]));
  const all = over.reduce((sum, each) => sum + each, 0);
  return over.map((each) => (all > 0 ? each / all : 0));
}

// The chance that a draft stays.
export function staying(p, q, token) {
  return q[token] > 0 ? Math.min(1, p[token] / q[token]) : 1;
}

// The middle of part `index` of `parts`.
export function middle(index, parts) {
  return (index + 0.5) / parts;
}

// How often each token stands there in the end: every draft as often as q says, u and v anywhere.
export function lawOf(q, outcomes) {
  const law = q.map(() => 0);
  outcomes.forEach((table, draft) => {
    const share = q[draft] / table.length ** 2;
    for (const [, token] of table.flat()) law[token] += share;
  });
  return law;
}

// The shares of a strip as stretches { from, to, token }, those of no width left out.
export function stretches(shares) {
  let from = 0;
  return shares.flatMap((share, token) => {
    const stretch = { from, to: from + share, token };
    from += share;
    return share > 0 ? [stretch] : [];
  });
}

export function short(value) {
  return String(Number(value.toFixed(3)));
}

// A draft's fate in words: what u decides, what v draws, and what the function answered.
export function fateWords({ tokens, p, q, name }, draft, u, v, [kept, token]) {
  const stays = staying(p, q, draft);
  const head = `The draft is ${tokens[draft]}. p / q is ${q[draft] > 0 ? short(p[draft] / q[draft]) : "without bound"}, so it stays with probability ${short(stays)}.`;
  const decided = kept
    ? `At u = ${short(u)} ${name} keeps it: ${tokens[token]} stands there.`
    : `At u = ${short(u)} ${name} turns it down; at v = ${short(v)} ${tokens[token]} stands there.`;
  return `${head} ${decided}`;
}

// How the outcome differs from the rule of the two papers; "" where it does not, or v is at an edge.
export function ruleWords({ tokens, p, q }, draft, u, v, [kept, token]) {
  const stays = u < staying(p, q, draft);
  if (kept !== stays) return `The rule would ${stays ? "keep it" : "turn it down"}.`;
  const stretch = kept ? null : stretches(missing(p, q)).find(({ from, to }) => from <= v && v < to);
  const right = kept ? draft : stretch?.token ?? token;
  return right === token ? "" : `By the rule ${tokens[right]} would stand there.`;
}
