"""How long a room waits for its first tokens: 100 clients of one live engine, three of them pages.

    python -m benchmarks.live [--clients 100] [--browsers 3] [--every 10] [--seconds 60]
                              [--plot FILE]

Needs requirements-test.txt and Chromium. The real `demo live` runs without a pace, so that what is
measured is the engine, the server and the way to the page. In the first load each client sends a
prompt every so many seconds, out of step with the others; in the second all send at once, three
times. A latency runs from the sending to the moment at which the client has the first token: in the
text of a browser's page, or in a websocket's message.
"""

import asyncio
import contextlib
import json
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import psutil
import websockets
from playwright.async_api import Browser, Page, async_playwright

from benchmarks.course_in_browser import CHROMIUM, ROOT
from benchmarks.measure import describe, machine
from nanogpt.experiments.command_line import Parser, Whole
from nanogpt.figures import Chart, Panel, cumulative
from nanogpt.figures.plot_option import PLOT_HELP, PlotFile, write_plot

PROMPTS = (
    "ROMEO:\n",
    "O Romeo, Romeo! wherefore art thou",
    "To be, or not to be, that is",
)
ROUNDS = 3
LIMIT_S = 120.0

# From the press of Send to the first characters behind the prompt of a new first card.
FIRST_TOKEN = """async (text) => {
    const cards = document.getElementById("mine");
    const newest = () => cards.querySelector("article strong")?.textContent ?? "";
    const before = newest();
    document.getElementById("prompt").value = text;
    const start = performance.now();
    document.querySelector("#ask button").click();
    while (true) {
        await new Promise((next) => setTimeout(next, 2));
        const answer = document.getElementById("answer").textContent;
        if (answer) throw new Error(answer);
        const shown = cards.querySelector("article .text");
        if (newest() !== before && shown && shown.textContent.length > text.length) {
            return performance.now() - start;
        }
    }
}"""


class Client(Protocol):
    """A guest that can be timed."""

    async def first_token_ms(self, text: str) -> float:
        """Send a prompt; milliseconds until its first token is here."""
        ...


@dataclass(slots=True)
class Socket:
    """A guest without a page. Mutable: its newest view."""

    connection: Any
    newest: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    mine: list[dict[str, Any]] = field(default_factory=list)

    async def read(self) -> None:
        """Take in all that comes, as a page does."""
        with contextlib.suppress(websockets.ConnectionClosed):
            async for said in self.connection:
                message = json.loads(said)
                if message["kind"] == "view":
                    async with self.changed:
                        self.mine = message["mine"]
                        self.changed.notify_all()
                elif message.get("why"):
                    raise RuntimeError(message["why"])

    async def first_token_ms(self, text: str) -> float:
        """Until a request newer than the last one has text."""
        clock = asyncio.get_running_loop().time
        start, before = clock(), self.newest
        await self.connection.send(json.dumps({"ask": text}))
        async with self.changed:
            await self.changed.wait_for(
                lambda: self.mine and self.mine[0]["id"] > before and self.mine[0]["text"]
            )
        self.newest = self.mine[0]["id"]
        return (clock() - start) * 1000


@dataclass(slots=True)
class Phone:
    """A guest's page in Chromium."""

    page: Page

    async def first_token_ms(self, text: str) -> float:
        """Measured in the page, by its own clock."""
        return await self.page.evaluate(FIRST_TOKEN, text)


@dataclass(frozen=True, slots=True)
class Demo:
    """The running demo: its process, where its guests go, its code, and its screen's token."""

    process: subprocess.Popen[str]
    address: str
    code: str
    token: str


async def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = Parser("python -m benchmarks.live", str(__doc__))
    parser.option("--clients", Whole(1, 300), 100, "guests in the room, browsers included")
    parser.option("--browsers", Whole(0, 10), 3, "of them, pages in Chromium")
    parser.option("--every", Whole(4, 600), 10, "seconds from one prompt of a client to its next")
    parser.option("--seconds", Whole(1, 3600), 60, "of the first load")
    parser.option("--plot", PlotFile(), None, PLOT_HELP)
    options = parser.parse_args(arguments)
    who = f"{options.clients} clients, {options.browsers} of them browsers"
    facts = machine()
    print(f"{describe(facts)}; {who}\n")
    async with AsyncExitStack() as stack:
        demo = stack.enter_context(opened())
        screen = await stack.enter_async_context(connected(demo, "/control", token=demo.token))
        reading = asyncio.create_task(drain(screen))
        for values in ({"pace_ms": 0}, {"max_kv_tokens": 1024}, {"token_budget": 64}):
            await screen.send(json.dumps({"set": values}))
        clients = await come_in(stack, demo, options.clients, options.browsers)
        peaks: dict[str, float] = {}
        peak = asyncio.create_task(watch_memory(demo.process.pid, peaks))
        print("| load | prompts | first token, p50 | p95 | browsers' p95 |\n|---|---|---|---|---|")
        apart, together = f"each every {options.every} s", f"all at once, {ROUNDS} times"
        loads = {apart: await spread_out(clients, options.every, options.seconds)}
        print(row(apart, loads[apart]))
        loads[together] = await at_once(clients)
        print(row(together, loads[together]))
        peak.cancel()
        reading.cancel()
        print("\n" + "; ".join(f"{name}: {size:.0f} MB" for name, size in peaks.items()))
    write_plot(options.plot, lambda: chart(loads, f"{facts['cpu']}; {who}"))


def row(load: str, measured: Sequence[tuple[Client, float]]) -> str:
    """A line of the table. Times in milliseconds."""
    all_ms = sorted(ms for _, ms in measured)
    pages_ms = sorted(ms for client, ms in measured if isinstance(client, Phone))
    pages = f"{at_95(pages_ms):,.0f} ms" if pages_ms else "none"
    middle = statistics.median(all_ms)
    return f"| {load} | {len(all_ms)} | {middle:,.0f} ms | {at_95(all_ms):,.0f} ms | {pages} |"


def chart(loads: Mapping[str, Sequence[tuple[Client, float]]], where: str) -> Chart:
    """How long first tokens take, a curve for each load."""
    panel = Panel(
        ("first token", "ms"),
        ("prompts with at most that", "%"),
        tuple(cumulative(name, [ms for _, ms in measured]) for name, measured in loads.items()),
        log_x=True,
    )
    return Chart("How long a room waits for its first tokens", (panel,), where)


def at_95(times: Sequence[float]) -> float:
    """The 95th percentile of sorted times."""
    return times[min(len(times) - 1, int(0.95 * len(times)))]


async def spread_out(
    clients: Sequence[Client], every_s: float, seconds: float
) -> list[tuple[Client, float]]:
    """Each client on its own, from a moment of its own in the first round."""
    chance = random.Random(0)
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    measured: list[tuple[Client, float]] = []

    async def behave(client: Client, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        while clock() < end:
            next_s = clock() + every_s
            measured.append((client, await client.first_token_ms(chance.choice(PROMPTS))))
            await asyncio.sleep(max(0.0, next_s - clock()))

    async with asyncio.timeout(seconds + LIMIT_S):
        await asyncio.gather(*(behave(each, chance.uniform(0, every_s)) for each in clients))
    return measured


async def at_once(clients: Sequence[Client]) -> list[tuple[Client, float]]:
    """All clients in one moment, again when all have finished."""
    measured: list[tuple[Client, float]] = []
    for _ in range(ROUNDS):
        await asyncio.sleep(8)  # until the last texts are done
        async with asyncio.timeout(LIMIT_S):
            times = await asyncio.gather(*(each.first_token_ms(PROMPTS[1]) for each in clients))
        measured += zip(clients, times, strict=True)
    return measured


# --- the room -------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened() -> Any:
    """The real command, on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "course", "demo", "live", "--no-browser", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    said = ""
    while "--host" not in said:
        said += process.stdout.readline()
    token, code = re.search(r"screen#(\S+)", said), re.search(r"code: +(\w+)", said)
    address = re.findall(r"http://[^\s#]+", said)[1]
    assert token and code
    try:
        yield Demo(process, address, code[1], token[1])
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@asynccontextmanager
async def connected(demo: Demo, path: str, **first: str) -> AsyncIterator[Any]:
    """A connection that has been let in."""
    origin = demo.address.rstrip("/")
    address = origin.replace("http", "ws") + path
    async with websockets.connect(address, origin=origin, max_queue=None) as page:
        await page.send(json.dumps(first))
        assert json.loads(await page.recv())["kind"] == "welcome"
        yield page


async def drain(connection: Any) -> None:
    """Read, as a screen does."""
    async for _ in connection:
        pass


async def come_in(
    stack: AsyncExitStack, demo: Demo, num_clients: int, num_browsers: int
) -> list[Client]:
    """The guests: browsers first."""
    clients: list[Client] = []
    if num_browsers:
        playwright = await stack.enter_async_context(async_playwright())
        program = next(path for name in CHROMIUM if (path := shutil.which(name)))
        browser: Browser = await playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"]
        )
        stack.push_async_callback(browser.close)
        for _ in range(num_browsers):
            page = await browser.new_page(viewport={"width": 390, "height": 844})
            await page.goto(f"{demo.address}#{demo.code}")
            await page.wait_for_selector("#inside:not([hidden])")
            clients.append(Phone(page))
    for _ in range(num_clients - num_browsers):
        socket = Socket(await stack.enter_async_context(connected(demo, "/room", code=demo.code)))
        reading = asyncio.create_task(socket.read())
        stack.callback(reading.cancel)
        clients.append(socket)
    return clients


async def watch_memory(process_id: int, peaks: dict[str, float]) -> None:
    """Note the largest resident size of the server and its engine, in MB, until cancelled."""
    while True:
        server = psutil.Process(process_id)
        for each in (server, *server.children(recursive=True)):
            name = "server" if each.pid == process_id else "engine"
            peaks[name] = max(peaks.get(name, 0.0), each.memory_info().rss / 1e6)
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main())
