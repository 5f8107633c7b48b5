// The interpreter of a page: CPython as WebAssembly (Pyodide), and the course's own Python.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const LARGE = ["pyodide.asm.wasm", "python_stdlib.zip", "course.zip"];

// Every large file that is fetched counts for the bar.
const fetched = self.fetch.bind(self);
let have = 0;
const ALL = 13e6; // bytes, about
self.fetch = async (...args) => {
  const response = await fetched(...args);
  if (!LARGE.some((name) => response.url.endsWith(name))) return response;
  const count = new TransformStream({
    transform(chunk, out) {
      have += chunk.byteLength;
      self.postMessage({ share: Math.min(1, have / ALL) });
      out.enqueue(chunk);
    },
  });
  const { status, headers } = response;
  return new Response(response.body.pipeThrough(count), { status, headers });
};

async function start() {
  const archive = self.fetch(new URL("course.zip", import.meta.url)).then((it) => it.arrayBuffer());
  const python = await loadPyodide({
    env: { SERVING_NANOGPT_WORK: "/work", HOME: "/home/pyodide" }, // in this worker's memory
    stdin: () => null, // nobody can type here
    stdout: () => {},
    stderr: () => {},
  });
  python.unpackArchive(await archive, "zip", { extractDir: "/course" });
  python.runPython("import sys; sys.path.insert(0, '/course')");
  python.runPython("from course.tab import stand_ins; stand_ins.install()");
  return (name) => python.pyimport(name === "replay" ? "course.tab.replay" : "course.tab.in_page")[name];
}

const started = start();

self.onmessage = async ({ data: { id, name, args } }) => {
  try {
    const page = await started;
    self.postMessage({ id, value: JSON.parse(page(name)(JSON.stringify(args))) });
  } catch (error) {
    // Whatever state it is in, the page goes on with a fresh one.
    self.postMessage({ id, fatal: String(error.message ?? error).trim().split("\n").at(-1) });
  }
};
