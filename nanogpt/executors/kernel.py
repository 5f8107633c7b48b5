"""The forward pass of one step as a single compiled call: loops over plain arrays.

It computes what `GPT.hidden` and `GPT.logits` say in torch. Each phase is cut into units, which are
panels of a product or heads of an attention. Several threads may run the same call over the same
arrays: each takes the next free unit, and all go on once the units of the phase are done. Every sum
has a fixed order, whatever the rows, the chunking or the threads, so a token's result has the same
bits in every batch.

Shapes: N tokens of B rows, R of them with logits, L layers, H heads, D head size, C = H * D
channels, V vocabulary, E entries of the KV cache, I inputs and O outputs of a product in P panels.
"""

# pyright: basic, reportCallIssue=false
# Numba finds the types when it compiles, and fills in an intrinsic's first argument.

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from nanogpt.executors.kernel_cache import kept_on_disk

LANES = 16
"""Numbers in a vector; a processor with shorter registers takes several for one."""
WIDE = get_host_cpu_features().get("avx512f", False)
ROWS, VECTORS = (8, 2) if WIDE else (4, 1)
"""The tile of sums that fits the registers: rows x vectors of `LANES`."""
WIDTH = VECTORS * LANES
PLAIN: Any = {"nogil": True, "_nrt": False, "error_model": "numpy"}
"""No references are counted, which costs more than short loops do: the caller holds all arrays."""
EXACT: Any = {**PLAIN, "fastmath": {"contract"}}
"""A multiplication and an addition may become one instruction; no sum is reordered."""
SUMS: Any = {**PLAIN, "fastmath": {"contract", "reassoc", "nsz"}}
"""A sum may be reordered into vectors: the same way for every sum of the same length."""


class Weights(NamedTuple):
    """A model's weights, by layer. Norms are (weight, bias); biases lie as qkv, proj, up, down."""

    tokens: np.ndarray  # (V, C)
    positions: np.ndarray  # (S, C)
    norms: np.ndarray  # (2 L + 1, 2, C)
    qkv: np.ndarray  # (L, P, C, WIDTH)
    proj: np.ndarray  # (L, P, C, WIDTH)
    up: np.ndarray  # (L, P, C, WIDTH)
    down: np.ndarray  # (L, P, 4 C, WIDTH)
    biases: np.ndarray  # (L, 9 C), or (L, 0)
    logits: np.ndarray  # (P, C, WIDTH)


class Batch(NamedTuple):
    """The rows of a step, flat. Row b has tokens `starts[b]` to `starts[b + 1]`.

    `tables` names the blocks of each row's K/V, and `held` how many entries it holds. A token sees
    the first `num_sinks` keys of its row, those from `lows` on, and itself.
    """

    tokens: np.ndarray  # (N,)
    positions: np.ndarray  # (N,)
    lows: np.ndarray  # (N,)
    starts: np.ndarray  # (B + 1,)
    held: np.ndarray  # (B,)
    wanted: np.ndarray  # (R,) ascending
    tables: np.ndarray  # (B, blocks)
    block_size: int
    num_sinks: int


class Scratch(NamedTuple):
    """The shared state of a step's threads. `work` counts, for each phase, units taken and done."""

    x: np.ndarray  # (N, C or more)
    kept: np.ndarray  # (N, C or more)
    qkv: np.ndarray  # (N, 3 C or more)
    mixed: np.ndarray  # (N, C)
    wide: np.ndarray  # (N, 4 C or more)
    work: np.ndarray  # (phases, 16), zeros


def panels_of(weight: np.ndarray) -> np.ndarray:
    """A weight in panels, filled up with zeros. Shapes: (I, O) -> (P, I, WIDTH)."""
    num_inputs, num_outputs = weight.shape
    padded = np.zeros((num_inputs, -(-num_outputs // WIDTH) * WIDTH), weight.dtype)
    padded[:, :num_outputs] = weight
    return np.ascontiguousarray(padded.reshape(num_inputs, -1, WIDTH).transpose(1, 0, 2))


# --- LLVM instructions: a tile of sums in registers, counters for several threads ----------------


class _Emitter:
    """Writes LLVM's instructions for vectors of the numbers that a function's arrays hold."""

    def __init__(self, context: Any, builder: Any, signature: Any) -> None:
        self.context, self.builder, self.kinds = context, builder, signature.args
        self.vector = ir.VectorType(context.get_value_type(signature.args[0].dtype), LANES)

    def arrays(self, args: Any) -> list[Any]:
        kinds = zip(self.kinds, args, strict=True)
        return [self.context.make_array(k)(self.context, self.builder, each) for k, each in kinds]

    def number(self, value: int) -> Any:
        return self.context.get_constant(types.intp, value)

    def lane(self, value: int) -> Any:
        return ir.Constant(ir.IntType(32), value)

    def lanes(self, values: Sequence[int]) -> Any:
        return ir.Constant(ir.VectorType(ir.IntType(32), len(values)), list(values))

    def row(self, array: Any, index: Any) -> Any:
        """Where a row of an array begins."""
        step = self.builder.extract_value(array.strides, 0)
        return cgutils.pointer_add(self.builder, array.data, self.builder.mul(step, index))

    def place(self, start: Any, offset: Any) -> Any:
        """Where the vector lies that begins so many numbers behind `start`."""
        return self.builder.bitcast(self.builder.gep(start, [offset]), self.vector.as_pointer())

    def load(self, start: Any, offset: Any) -> Any:
        return self.builder.load(self.place(start, offset), align=4)

    def variable(self, value: Any) -> Any:
        """A vector that changes; LLVM keeps it in registers."""
        place = cgutils.alloca_once(self.builder, self.vector)
        self.builder.store(value, place)
        return place

    def add_product(self, total: Any, a: Any, b: Any) -> None:
        """total += a * b, lane by lane."""
        product = self.builder.fmul(a, b, flags=("contract",))
        added = self.builder.fadd(self.builder.load(total), product, flags=("contract",))
        self.builder.store(added, total)

    def spread(self, number: Any) -> Any:
        """The number in all lanes."""
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(empty, number, self.lane(0))
        return self.builder.shuffle_vector(first, empty, self.lanes([0] * LANES))


def tile_of(num_rows: int) -> Any:
    """A function (x, panel, out) for compiled code: out += x @ panel, sums kept in registers.

    Each input is read once for `WIDTH` outputs, each weight once for all rows; a sum runs over the
    inputs in their order. Shapes: x (num_rows, I), panel (I, WIDTH), out (num_rows, WIDTH).
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emitter(context, builder, signature)
        x, panel, out = emit.arrays(args)
        offsets = [emit.number(v * LANES) for v in range(VECTORS)]
        inputs = [emit.row(x, emit.number(r)) for r in range(num_rows)]
        rows = [emit.row(out, emit.number(r)) for r in range(num_rows)]
        places = [emit.place(row, offset) for row in rows for offset in offsets]
        sums = [emit.variable(builder.load(place, align=4)) for place in places]
        with cgutils.for_range(builder, builder.extract_value(panel.shape, 0)) as loop:
            weights = [emit.load(emit.row(panel, loop.index), offset) for offset in offsets]
            for r in range(num_rows):
                factor = emit.spread(builder.load(builder.gep(inputs[r], [loop.index])))
                for v, weight in enumerate(weights):
                    emit.add_product(sums[r * VECTORS + v], factor, weight)
        for place, total in zip(places, sums, strict=True):
            builder.store(builder.load(total), place, align=4)
        return context.get_dummy_value()

    def typing(context: Any, x: Any, panel: Any, out: Any) -> Any:
        return types.void(x, panel, out), codegen

    return intrinsic(typing)


tile_8, tile_4, tile_2, tile_1 = (tile_of(num_rows) for num_rows in (8, 4, 2, 1))


def dots_of(num_keys: int) -> Any:
    """A function (q, keys, out) for compiled code: out = keys @ q, sums kept in registers.

    A sum has a part for each lane of a vector; then halves are added until one number is left.
    Shapes: q (D), D a multiple of `LANES`, keys (num_keys, D), out (num_keys).
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emitter(context, builder, signature)
        q, keys, out = emit.arrays(args)
        numbers = [context.get_constant(types.intp, k) for k in range(num_keys)]
        rows = [emit.row(keys, k) for k in numbers]
        sums = [emit.variable(ir.Constant(emit.vector, [0.0] * LANES)) for _ in numbers]
        count = builder.udiv(builder.extract_value(q.shape, 0), emit.number(LANES))
        with cgutils.for_range(builder, count) as loop:
            at = builder.mul(loop.index, emit.number(LANES))
            query = emit.load(q.data, at)
            for row, total in zip(rows, sums, strict=True):
                emit.add_product(total, query, emit.load(row, at))
        for row, total in zip(numbers, sums, strict=True):
            vector, half = builder.load(total), LANES // 2
            while half:
                low, high = (emit.lanes(range(i, i + half)) for i in (0, half))
                pair = [builder.shuffle_vector(vector, vector, each) for each in (low, high)]
                vector, half = builder.fadd(*pair), half // 2
            builder.store(builder.extract_element(vector, emit.lane(0)), emit.row(out, row))
        return context.get_dummy_value()

    def typing(context: Any, q: Any, keys: Any, out: Any) -> Any:
        return types.void(q, keys, out), codegen

    return intrinsic(typing)


dots_4, dots_1 = dots_of(4), dots_of(1)


def _counter(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    work = context.make_array(signature.args[0])(context, builder, args[0])
    row = builder.mul(builder.extract_value(work.strides, 0), args[1])
    return builder.gep(cgutils.pointer_add(builder, work.data, row), [args[2]])


@intrinsic
def add_one(typing: Any, work: Any, phase: Any, which: Any) -> Any:
    """Add 1 to a counter, as one act that no other thread can divide; returns what it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place, one = _counter(context, builder, signature, args), ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", place, one, "acq_rel")

    return types.int64(work, types.intp, types.intp), codegen


@intrinsic
def count_of(typing: Any, work: Any, phase: Any, which: Any) -> Any:
    """The current value of a counter."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_counter(context, builder, signature, args), "acquire", 8)

    return types.int64(work, types.intp, types.intp), codegen


TAKEN, DONE = 0, 8
"""The two counters of a phase, on different lines of the processor's cache."""


@njit(**PLAIN)
def wait_for(work, phase, num_units):
    """Return once all units of a phase are done."""
    while count_of(work, phase, DONE) < num_units:
        pass


# --- functions of one number ----------------------------------------------------------------------


@njit(**EXACT)
def exp_float32(x):
    """e ** x as 2 ** whole * e ** rest, with a polynomial for the rest (Cephes, expf)."""
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    whole = np.rint(x * np.float32(1.44269504))
    rest = x - whole * np.float32(0.693359375) + whole * np.float32(2.12194440e-4)
    value = np.float32(1.9875691500e-4)
    value = value * rest + np.float32(1.3981999507e-3)
    value = value * rest + np.float32(8.3334519073e-3)
    value = value * rest + np.float32(4.1665795894e-2)
    value = value * rest + np.float32(1.6666665459e-1)
    value = value * rest + np.float32(5.0000001201e-1)
    value = value * rest * rest + rest + np.float32(1.0)
    return value * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


@njit(**EXACT)
def erf_float32(x):
    """Within 3.4e-7: a quotient of two polynomials, with the coefficients of Eigen 3.4."""
    x = min(max(x, np.float32(-4.0)), np.float32(4.0))
    square = x * x
    value = np.float32(-2.72614225801306e-10)
    value = value * square + np.float32(2.77068142495902e-08)
    value = value * square - np.float32(2.10102402082508e-06)
    value = value * square - np.float32(5.69250639462346e-05)
    value = value * square - np.float32(7.34990630326855e-04)
    value = value * square - np.float32(2.95459980854025e-03)
    value = value * square - np.float32(1.60960333262415e-02)
    below = np.float32(-1.45660718464996e-05)
    below = below * square - np.float32(2.13374055278905e-04)
    below = below * square - np.float32(1.68282697438203e-03)
    below = below * square - np.float32(7.37332916720468e-03)
    below = below * square - np.float32(1.42647390514189e-02)
    return x * value / below


def by_dtype(of_float32: Any, of_float64: Any) -> Any:
    """A function for compiled code: a polynomial, which vectors can do, or the C library's."""

    def function(x: float) -> float:
        return of_float64(x)

    @overload(function, inline="always")
    def _(x):
        return (lambda x: of_float32(x)) if x == types.float32 else lambda x: of_float64(x)

    return function


exp, erf = by_dtype(exp_float32, math.exp), by_dtype(erf_float32, math.erf)


# --- pieces of the forward pass -------------------------------------------------------------------


@njit(**PLAIN)
def add_product(x, panel, out):
    """out += x @ panel. Shapes: x (N, I), panel (I, WIDTH), out (N, WIDTH)."""
    r, num_rows = 0, len(x)
    if ROWS == 8:
        while r + 8 <= num_rows:
            tile_8(x[r : r + 8], panel, out[r : r + 8])
            r += 8
    while r + 4 <= num_rows:
        tile_4(x[r : r + 4], panel, out[r : r + 4])
        r += 4
    if r + 2 <= num_rows:
        tile_2(x[r : r + 2], panel, out[r : r + 2])
        r += 2
    if r < num_rows:
        tile_1(x[r : r + 1], panel, out[r : r + 1])


@njit(**SUMS)
def dot(a, b):
    """a @ b, in an order that depends on the length only."""
    total = a.dtype.type(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(**PLAIN)
def dots(q, keys, out):
    """out = keys @ q. Shapes: q (D), keys (S, D), out (S)."""
    s, num_keys = 0, len(keys)
    if len(q) % LANES == 0:
        while s + 4 <= num_keys:
            dots_4(q, keys[s : s + 4], out[s : s + 4])
            s += 4
        while s < num_keys:
            dots_1(q, keys[s : s + 1], out[s : s + 1])
            s += 1
    else:
        for each in range(num_keys):
            out[each] = dot(q, keys[each])


@njit(**SUMS)
def sum_of(a):
    """The sum of all, in an order that depends on the length only."""
    total = a.dtype.type(0)
    for i in range(len(a)):
        total += a[i]
    return total


@njit(**PLAIN, fastmath={"nnan", "nsz"})
def peak_of(scores):
    """The largest, which no order changes."""
    peak = scores[0]
    for s in range(1, len(scores)):
        peak = max(peak, scores[s])
    return peak


@njit(**EXACT)
def normalize(x, norm, out):
    """Layer normalization. Shapes: x (N, C or more), norm (2, C), out (N, C)."""
    num_channels = norm.shape[1]
    one, count = norm.dtype.type(1), norm.dtype.type(num_channels)
    for i in range(len(x)):
        row, into = x[i, :num_channels], out[i]
        mean = sum_of(row) / count
        for c in range(num_channels):
            into[c] = row[c] - mean
        scale = one / np.sqrt(dot(into, into) / count + norm.dtype.type(1e-5))
        for c in range(num_channels):
            into[c] = into[c] * scale * norm[0, c] + norm[1, c]


@njit(**EXACT)
def gelu(row, tanh_form):
    """GELU in place. Shapes: row (...)."""
    number = row.dtype.type
    if tanh_form:
        for c in range(len(row)):
            cubed = number(0.044715) * row[c] * row[c] * row[c]
            row[c] /= number(1) + exp(number(-1.5957691216057308) * (row[c] + cubed))
    else:
        for c in range(len(row)):
            row[c] *= number(0.5) * (number(1) + erf(row[c] * number(0.7071067811865476)))


@njit(**EXACT)
def softmax(scores, scale):
    """In place, of scores times scale. Shapes: scores (S)."""
    peak = peak_of(scores)
    for s in range(len(scores)):
        scores[s] = exp((scores[s] - peak) * scale)
    share = scores.dtype.type(1) / sum_of(scores)
    for s in range(len(scores)):
        scores[s] *= share


@njit(**PLAIN)
def copy(source, out):
    """Shapes: source, out (...)."""
    for c in range(len(source)):
        out[c] = source[c]


@njit(**PLAIN)
def find_runs(table, block_size, num_sinks, low, seen, runs):
    """The keys that a token sees, as runs (first entry, count) in the cache; how many runs.

    Of a row's first `seen` keys these are the sinks and those from `low` on. Shapes: runs (..., 2).
    """
    index, end, count = 0, min(num_sinks, low), 0
    while index < seen:
        if index >= end:
            index, end = max(index, low), seen
            continue
        block, first = index // block_size, index
        entry = table[block] * block_size + index % block_size
        index = min((block + 1) * block_size, end)
        while index < end and table[block + 1] == table[block] + 1:
            block += 1
            index = min((block + 1) * block_size, end)
        runs[count, 0], runs[count, 1] = entry, index - first
        count += 1
    return count


@njit(**EXACT)
def attend(q, keys, values, runs, weights, out):
    """T queries of one head over the keys of `runs`; the last sees all, each other one fewer.

    Shapes: q, out (T, D), keys, values (E, D), runs (..., 2), weights (T or more, S or more), to
    be filled.
    """
    (num_queries, head_size), at = q.shape, 0
    for run in range(len(runs)):
        entry, count = runs[run]
        for t in range(num_queries):
            dots(q[t], keys[entry : entry + count], weights[t, at : at + count])
        at += count
    for t in range(num_queries):
        visible = at - num_queries + 1 + t
        softmax(weights[t, :visible], keys.dtype.type(1.0 / math.sqrt(head_size)))
        weights[t, visible:at] = 0
        out[t, :] = 0
    at = 0
    for run in range(len(runs)):
        entry, count = runs[run]
        own, mixed = weights[:num_queries, at : at + count], values[entry : entry + count]
        if head_size % WIDTH == 0:
            for d in range(0, head_size, WIDTH):
                add_product(own, mixed[:, d : d + WIDTH], out[:, d : d + WIDTH])
        else:
            for t in range(num_queries):
                for s in range(count):
                    for d in range(head_size):
                        out[t, d] += own[t, s] * mixed[s, d]
        at += count


# --- phases ---------------------------------------------------------------------------------------

NEW, ADDED, GELU = range(3)
"""The use of a product: all of `out`, added to `out`, or GELU of it."""


@njit(**PLAIN)
def product(x, panels, bias, out, kind, tanh_form, work, phase):
    """A product, panel by panel. Shapes: x (N, I), panels (P, I, WIDTH), out (N, P * WIDTH)."""
    num_panels = len(panels)
    p = add_one(work, phase, TAKEN)
    while p < num_panels:
        own = slice(p * WIDTH, (p + 1) * WIDTH)
        own_bias = bias[own]
        for i in range(len(x)):
            row = out[i, own]
            if kind != ADDED:
                row[:] = 0
            for c in range(len(own_bias)):
                row[c] += own_bias[c]
        add_product(x, panels[p], out[:, own])
        if kind == GELU:
            for i in range(len(x)):
                gelu(out[i, own], tanh_form)
        add_one(work, phase, DONE)
        p = add_one(work, phase, TAKEN)
    wait_for(work, phase, num_panels)


@njit(**PLAIN)
def attention(batch, kv, layer, chosen, scores, runs, scratch, phase):
    """Write each row's new K/V, and attend for its chosen tokens: a unit is a head of a row.

    What the chosen tokens have in `x` moves to `kept`, to which the results will be added.
    Shapes: kv (2, L, H, E, D), chosen (R), scores (ROWS, S) and runs (..., 2), of this thread.
    """
    x, kept, qkv, mixed, _, work = scratch
    _, _, num_heads, _, head_size = kv.shape
    num_units, size = len(batch.held) * num_heads, batch.block_size
    unit = add_one(work, phase, TAKEN)
    while unit < num_units:
        b, head = unit // num_heads, unit % num_heads
        first, end, table = batch.starts[b], batch.starts[b + 1], batch.tables[b]
        own = slice(head * head_size, (head + 1) * head_size)
        for i in range(first, end):
            index = batch.held[b] + i - first
            entry = table[index // size] * size + index % size
            for j in range(2):
                source = ((1 + j) * num_heads + head) * head_size
                copy(qkv[i, source : source + head_size], kv[j, layer, head, entry])
        r = 0
        while r < len(chosen) and chosen[r] < first:
            r += 1
        while r < len(chosen) and chosen[r] < end:
            i, count = chosen[r], 1
            while count < ROWS and r + count < len(chosen) and chosen[r + count] == i + count < end:
                if batch.lows[i + count]:  # no query beside it sees the same keys
                    break
                count += 1
            seen = batch.held[b] + i - first + count
            num_runs = find_runs(table, size, batch.num_sinks, batch.lows[i], seen, runs)
            attend(
                qkv[i : i + count, own], kv[0, layer, head], kv[1, layer, head], runs[:num_runs],
                scores, mixed[r : r + count, own],
            )  # fmt: skip
            for t in range(count):
                copy(x[i + t, own], kept[r + t, own])
            r += count
        add_one(work, phase, DONE)
        unit = add_one(work, phase, TAKEN)
    wait_for(work, phase, num_units)


@njit(**PLAIN)
def pick(logits, best):
    """Fill in each row's most likely token, or -1 where a logit is not finite; the first of equals.

    Shapes: logits (R, V), best (R).
    """
    for r in range(len(logits)):
        row, best[r] = logits[r], 0
        for token in range(len(row)):
            if not np.isfinite(row[token]):
                best[r] = -1
                break
            if row[token] > row[best[r]]:
                best[r] = token


@njit(nogil=True)
def batch_of(numbers, sizes):
    """A batch whose arrays lie one behind another, which costs Python less than many arrays do."""
    n, b, r, block_size, num_sinks = sizes
    rest = numbers[3 * n :]
    return Batch(
        numbers[:n], numbers[n : 2 * n], numbers[2 * n : 3 * n], rest[: b + 1],
        rest[b + 1 : 2 * b + 1], rest[2 * b + 1 : 2 * b + 1 + r],
        rest[2 * b + 1 + r :].reshape((b, -1)), block_size, num_sinks,
    )  # fmt: skip


@kept_on_disk
def forward(numbers, sizes, weights, kv, tanh_form, scratch, logits, best):
    """Fill in the logits after the wanted tokens; the K/V of all tokens goes into the cache.

    `numbers` and `sizes` are those of a batch. Shapes: kv (2, L, H, E, D), logits (R, V or more),
    best (R).
    """
    batch = batch_of(numbers, sizes)
    _, num_layers, num_heads, _, head_size = kv.shape
    num_tokens, num_channels = len(batch.tokens), num_heads * head_size
    x, kept, qkv, mixed, wide, work = scratch
    normed = np.empty((num_tokens, num_channels), kv.dtype)
    num_blocks = batch.tables.shape[1]
    scores = np.empty((ROWS, num_blocks * batch.block_size), kv.dtype)
    runs = np.empty((num_blocks + 2, 2), np.int64)
    everyone, phase = np.arange(num_tokens), 1
    token = add_one(work, 0, TAKEN)
    while token < num_tokens:
        for c in range(num_channels):
            embedded = weights.tokens[batch.tokens[token], c]
            x[token, c] = embedded + weights.positions[batch.positions[token], c]
        add_one(work, 0, DONE)
        token = add_one(work, 0, TAKEN)
    wait_for(work, 0, num_tokens)
    for layer in range(num_layers):
        bias = weights.biases[layer]
        normalize(x, weights.norms[2 * layer], normed)
        end = 3 * num_channels
        product(normed, weights.qkv[layer], bias[:end], qkv, NEW, False, work, phase)
        chosen = batch.wanted if layer == num_layers - 1 else everyone
        own = Scratch(x, kept, qkv, mixed, wide, work)
        attention(batch, kv, layer, chosen, scores, runs, own, phase + 1)
        num_tokens = len(chosen)  # what no later layer reads is left out
        x, kept = kept[:num_tokens], x
        mixed, normed, wide = mixed[:num_tokens], normed[:num_tokens], wide[:num_tokens]
        first, end = end, end + num_channels
        product(mixed, weights.proj[layer], bias[first:end], x, ADDED, False, work, phase + 2)
        normalize(x, weights.norms[2 * layer + 1], normed)
        first, end = end, end + 4 * num_channels
        product(normed, weights.up[layer], bias[first:end], wide, GELU, tanh_form, work, phase + 3)
        product(wide, weights.down[layer], bias[end:], x, ADDED, False, work, phase + 4)
        phase += 5
    normalize(x, weights.norms[2 * num_layers], normed)
    product(normed, weights.logits, weights.biases[0, :0], logits, NEW, False, work, phase)
    if add_one(work, phase + 1, TAKEN) == 0:
        pick(logits[:, : len(weights.tokens)], best)
