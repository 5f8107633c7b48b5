// What a request's share of a step brought it, drafts included.

// The tokens that it was given: the drafts that were kept, and the one drawn after them.
export function tokensOf(work) {
  const kept = (work.drafted ?? []).slice(0, work.num_accepted ?? 0);
  return work.sampled === null ? kept : [...kept, work.sampled];
}

// Up to where it is computed once the rejected drafts are gone.
export function keptEnd(work) {
  return work.end - (work.drafted ?? []).length + (work.num_accepted ?? 0);
}
