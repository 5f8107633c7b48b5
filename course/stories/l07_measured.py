"""Behind lesson 7's figures: seeds in pairs, which piece pays, two real workers, all recorded."""

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from course.calling.jobs import RunError, run
from course.stories import recorded
from course.stories.l07_fleet import ms
from course.stories.l07_recording import real_workers
from nanogpt.figures import Chart, Line, Panel
from nanogpt.fleet import CALIBRATED_COST, SOURCE_COST
from nanogpt.fleet.costs import CostModel, decode_us

Row = Mapping[str, Any]
TTFT = ["ttft_p50_ms", "ttft_p99_ms"]
_MOST_S = 60.0  # of computing in the router, beside which the workers compute


def order_pairs() -> dict[str, dict[str, Any]]:
    """Ten seeds of the rush: by priority, without and with ageing, against by arrival."""
    return recorded("fleet")["order"]


def order_said() -> str:
    """What those seeds say of the two figures; Markdown."""

    def row(name: str, metric: str) -> Row:
        return next(each for each in order_pairs()[name]["rows"] if each["metric"] == metric)

    def interval(of: Row) -> str:
        return f"{of['mean']:+,.0f} ms ({of['low']:+,.0f} to {of['high']:+,.0f})"

    p50, p99 = row("unaged", "ttft_p50_ms"), row("unaged", "ttft_p99_ms")
    rises = sum(each["other"] > each["baseline"] for each in p99["pairs"])
    aged_p50, aged_p99 = row("aged", "ttft_p50_ms"), row("aged", "ttft_p99_ms")
    return (
        f"By priority alone the median falls in all {len(p50['pairs'])} seeds, and in {rises} of "
        f"them the 99th percentile rises: {interval(p50)} and {interval(p99)}. One and the same "
        "change; which of the two figures is on the poster is a choice. With ageing the median "
        f"keeps its gain, {interval(aged_p50)}, and the 99th percentile improves too: "
        f"{interval(aged_p99)}. Recorded; `lessons/data/fleet.md` says how."
    )


# --- which piece pays ---------------------------------------------------------------------------

_COLUMNS = (  # of the table: load, metric, head
    (0, "ttft_p50_ms", "30/s: median TTFT"),
    (1, "ttft_p50_ms", "300/s: median TTFT"),
    (1, "ttft_p99_ms", "300/s: 99th percentile"),
    (2, "slo_violations", "burst: deadlines missed"),
)


def pieces_table() -> str:
    """What each piece of the adaptive fleet brings on three loads; Markdown."""
    pieces = recorded("fleet")["pieces"]
    loads = list(dict.fromkeys(each["load"] for each in pieces))
    names = list(dict.fromkeys(each["piece"] for each in pieces))
    found = {(each["load"], each["piece"]): each["rows"] for each in pieces}

    def cells(name: str) -> list[str]:
        return [_brought(found[loads[load], name][metric], metric) for load, metric, _ in _COLUMNS]

    head = f"| piece | {' | '.join(title for *_, title in _COLUMNS)} |\n|:--|{'--:|' * 4}\n"
    return head + "\n".join(f"| {name} | {' | '.join(cells(name))} |" for name in names)


def _brought(row: Row, metric: str) -> str:
    if row["verdict"] == "equal":
        return "nothing"
    if row["verdict"] == "within noise":
        return "noise"
    words = (
        f"{row['mean']:+,.1f} points" if metric == "slo_violations" else f"{row['mean']:+,.1f} ms"
    )
    return f"**{words}**" if row["verdict"] == "better" else words


def against_fifo() -> str:
    """All of it against a naive FIFO: three scenarios by two costs; Markdown."""

    def cell(row: Row) -> str:
        if row["verdict"] in ("equal", "within noise"):
            return str(row["verdict"])
        unit = "ms" if row["unit"] == "ms" else "points"
        return f"{row['mean']:+,.1f} {unit} ({row['low']:+,.1f} to {row['high']:+,.1f})"

    def line(each: Mapping[str, Any]) -> str:
        rows = {row["metric"]: row for row in each["rows"]}
        base = {name: fmean(p["baseline"] for p in row["pairs"]) for name, row in rows.items()}
        cells = [f"{ms(base[name])} ms, {cell(rows[name])}" for name in TTFT]
        cells.append(f"{base['slo_violations']:.1f} %, {cell(rows['slo_violations'])}")
        return f"| {each['cost']} | {each['scenario']} | {' | '.join(cells)} |"

    head = (
        "| costs | scenario | FIFO's median TTFT, and the difference | 99th percentile | "
        "deadlines missed |\n|:--|:--|:--|:--|:--|\n"
    )
    return head + "\n".join(map(line, recorded("fleet")["scenarios"]))


def source_claim() -> str:
    """What the source's policies gain over the source's own baseline, as a sentence."""
    rows = [row for each in recorded("fleet")["as_source"] for row in each["rows"]]
    medians = [abs(row["mean"]) for row in rows if row["metric"] == "ttft_p50_ms"]
    tails = {row["verdict"] for row in rows if row["metric"] == "ttft_p99_ms"}
    itls = [1000 * row["mean"] for row in rows if row["metric"] == "itl_mean_ms"]
    of_the_tail = "nothing but noise" if tails == {"within noise"} else ", ".join(sorted(tails))
    return (
        f"{max(medians):.1f} ms of median TTFT at most, {of_the_tail} at the 99th percentile, and "
        f"tokens that come {min(itls):.0f} to {max(itls):.0f} µs later"
    )


def gains_of_a_batch() -> tuple[float, float]:
    """Tokens per second of a batch of 32 against one request, by the source's and real costs."""

    def gain(cost: CostModel) -> float:
        return 32 * decode_us(cost, 1, 0) / decode_us(cost, 32, 0)

    return gain(SOURCE_COST), gain(CALIBRATED_COST)


# --- two real workers ---------------------------------------------------------------------------


def two_workers(now: bool, route: Callable[..., Any]) -> tuple[dict[str, Any], str]:
    """(figures, where they come from): measured with `route` if `now`, else recorded."""
    if not now:
        return recorded("fleet")["workers"], "recorded, with the reference's route"
    try:
        return run(real_workers, route, limit_s=_MOST_S), "measured here, just now"
    except RunError as failed:
        return recorded("fleet")["workers"], f"recorded, since it could not be run here: {failed}"


def hit_chart(real: Mapping[str, Any], where_from: str) -> Chart:
    """TTFT of a prompt of 500 tokens by how many of them were a prefix hit."""
    points = tuple((row["hit"], row["ttft_ms"]) for row in real["by_hit"])
    panel = Panel(("prefix hit", "tokens"), ("TTFT", "ms"), (Line("one prompt", points),))
    return Chart("TTFT of a prompt of 500 tokens on a real worker", (panel,), where_from)


def routes_table(real: Mapping[str, Any]) -> str:
    """Two routes of the same requests over two real workers; Markdown."""
    rows = [
        f"| {name} | {run['computed']:,} | {run['hits']:,} | "
        f"{', '.join(map(str, run['per_worker']))} | {run['mean_ttft_ms']:.0f} ms |"
        for name, run in real["by_route"].items()
    ]
    head = "| route | prompt tokens computed | hit | requests per worker | mean TTFT |"
    return (
        f"{real['num_requests']} requests with {real['num_prefixes']} system prompts of "
        f"{real['prefix']} tokens, in random order:\n\n{head}\n|:--|--:|--:|:--|--:|\n"
        + "\n".join(rows)
    )
