// A fleet's events and moments in words.

import { queueAt, workerAt } from "./fleet_view_layout.js";
import { capital, count, duration, listed, named, number } from "./words.js";

const MOST_NAMED = 6;

// Microseconds of the virtual clock: 1234567 -> "1.235 s"
export function clockTime(us) {
  return `${(us / 1e6).toFixed(3)} s`;
}

function ordinal(value) {
  return ["first", "second", "third", "fourth", "fifth"][value - 1] ?? `${value}th`;
}

function waitingWords({ waiting, late }) {
  if (!waiting) return "Nothing waits.";
  const past = late ? `, ${late === waiting ? "all" : number(late)} past ${late === 1 ? "its deadline" : "their deadlines"}` : "";
  return `${number(waiting)} ${waiting === 1 ? "waits" : "wait"}${past}.`;
}

function dispatchWords(fleet, request, event) {
  const { visit } = event;
  const visits = fleet.visitsOf.get(request.id);
  const turn = visits.indexOf(visit);
  const since = turn ? visits[turn - 1].end_us : request.arrival_us;
  const again = turn ? ` for the ${ordinal(turn + 1)} time` : "";
  const hit = visit.hit_tokens
    ? `${number(visit.hit_tokens)} of its ${number(visit.hit_tokens + visit.computed_tokens)} tokens hit the cache`
    : `no hit, ${count(visit.computed_tokens, "token")} to compute`;
  const waited = visit.dispatched_us - since;
  const when = waited ? ` after ${duration(waited)} of waiting` : " at once";
  return `Request ${request.id} is given to worker ${visit.worker}${again}${when}: ${hit}.`;
}

function missWords(request, event) {
  const where = event.visit ? `it is at worker ${event.worker}` : "it still waits";
  return `The deadline of request ${request.id} passes: ${where}.`;
}

const TOLD = {
  arrival: (fleet, request, event) => `Request ${request.id} arrives: priority ${request.priority}, ${count(request.prompt_tokens, "prompt token")}, ` +
    `at most ${number(request.max_new_tokens)} to generate, due in ${duration(request.deadline_us - event.at)}.`,
  refuse: (fleet, request) => {
    const needs = request.prompt_tokens + request.max_new_tokens - 1;
    const why = needs > fleet.trace.kv_tokens ? `: its ${number(needs)} KV tokens never fit into ${number(fleet.trace.kv_tokens)}` : "";
    return `Request ${request.id} is refused${why}.`;
  },
  bump: (fleet, request, event) => `Request ${request.id} becomes urgent, ${event.at <= request.deadline_us
    ? `${duration(request.deadline_us - event.at)} before its deadline` : `${duration(event.at - request.deadline_us)} after its deadline`}.`,
  preempt: (fleet, request, event) => `Request ${request.id} loses its place at worker ${event.worker} after ` +
    `${count(event.visit.generated_tokens, "token")} generated there, and waits again.`,
  dispatch: dispatchWords,
  token: (fleet, request, event) => `Request ${request.id} has its first token, ${duration(event.at - request.arrival_us)} after it arrived.`,
  finish: (fleet, request, event) => `Request ${request.id} is done, ${event.at <= request.deadline_us
    ? `${duration(request.deadline_us - event.at)} before its deadline` : `${duration(event.at - request.deadline_us)} too late`}.`,
  miss: (fleet, request, event) => missWords(request, event),
};

// One event in words, and how many wait after it.
export function fleetWords(fleet, index) {
  const event = fleet.events[index];
  if (!event) return "Nothing happens in this run.";
  const told = TOLD[event.kind](fleet, fleet.byId.get(event.id), event);
  return `${clockTime(event.at)}, event ${number(index + 1)} of ${number(fleet.events.length)}: ${told} ${waitingWords(queueAt(fleet, event.at))}`;
}

export function queueWords(fleet, us) {
  return waitingWords(queueAt(fleet, us));
}

// "requests 3, 5 and 8", at most six of them by name.
export function namesOf(ids) {
  if (!ids.length) return "";
  const named = ids.slice(0, MOST_NAMED).map(String);
  const more = ids.length > MOST_NAMED ? [`${ids.length - MOST_NAMED} more`] : [];
  return `${ids.length === 1 ? "request" : "requests"} ${listed([...named, ...more])}`;
}

// What a worker does at a moment.
export function passWords(lane, us) {
  const { run, batch, coming } = workerAt(lane, us);
  if (!run) return coming.length ? `about to start ${namesOf(coming)}` : "idle";
  if (run.kind === "decode") return `decode of ${namesOf(batch)}`;
  const fresh = lane.visits.filter((visit) => visit.start_us === run.start_us).map((visit) => visit.request_id);
  return `prefill of ${fresh.length ? namesOf(fresh) : count(run.num_requests, "request")}`;
}

// One request's whole way, for its strip.
export function wayWords(fleet, id) {
  const request = fleet.byId.get(id);
  const visits = fleet.visitsOf.get(id) ?? [];
  if (request.refused) return `Request ${id} was refused.`;
  const first = request.first_token_us === null ? "no token" : `first token after ${duration(request.first_token_us - request.arrival_us)}`;
  const end = request.finished_us === null ? "not finished"
    : request.finished_us <= request.deadline_us ? "in time" : `${duration(request.finished_us - request.deadline_us)} late`;
  const where = visits.length ? `at ${named("worker", visits.map((visit) => visit.worker))}` : "at no worker";
  return `Request ${id}, priority ${request.priority}, ${where}: ${first}, ${end}.`;
}

// The whole run in words, for the picture.
export function runWords(fleet) {
  const { trace, requests, events } = fleet;
  const missed = events.filter((event) => event.kind === "miss").length;
  return `${capital(trace.name)}: ${count(requests.length, "request")} at ${count(trace.num_workers, "worker")} in ${clockTime(fleet.end)}, ` +
    `${count(missed, "deadline")} missed, ${count(events.filter((event) => event.kind === "preempt").length, "preemption")}.`;
}
