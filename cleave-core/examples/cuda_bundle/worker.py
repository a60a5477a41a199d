"""Runs the cases of one source of a bundle: `worker.py <cubin> <source> <folder> <seconds of timing per case>`, cases as JSON lines on the
standard input. Prints a JSON line for each, and before it the line `running <what>`, which is the last one if a kernel hangs."""
import ctypes, json, os, statistics, sys
import numpy as np
from device import Device, Launch

cubin, source, here = sys.argv[1:4]
EPSILON = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
BYTES = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2}
device = Device()
module = device.load(open(cubin, "rb").read())
flush = device.allocate(256 << 20)
device.allocated.remove(flush)


def to_float(raw, dtype):
    if dtype == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return raw.view({"f32": np.float32, "f16": np.float16, "i32": np.int32}[dtype]).astype(np.float64)


def from_float(x, dtype):
    if dtype == "bf16":
        u = np.asarray(x, np.float32).view(np.uint32)
        return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
    return np.asarray(x).astype({"f32": np.float32, "f16": np.float16, "i32": np.int32}[dtype])


pattern = np.random.default_rng(1).standard_normal(1 << 20)


def buffer(b, index):
    n = max(b["bytes"], 16)
    p = device.allocate(n)
    fill = b["fill"]
    if fill in ("nan", "zero"):
        device.fill(p, 255 if fill == "nan" else 0, n)
    elif fill == "random":
        data = from_float(np.roll(pattern, 977 * index), b["dtype"]).view(np.uint8)[:n]
        device.upload(p, data)
        have = len(data)
        while have < n:
            more = min(have, n - have)
            device.copy(p + have, p, more)
            have += more
    elif fill.startswith("value "):
        device.upload(p, from_float(np.full(n // BYTES[b["dtype"]], float(fill[6:])), b["dtype"]))
    else:
        device.upload(p, np.fromfile(os.path.join(here, fill), np.uint8))
    return p


def strided(b, address, at=()):
    """A tensor's values at fixed first indices, as f64."""
    width, shape, strides = BYTES[b["dtype"]], b["shape"][len(at) :], b["strides"][len(at) :]
    first = sum(i * s for i, s in zip(at, b["strides"])) * width
    n = (sum((n - 1) * s for n, s in zip(shape, strides)) + 1) * width if all(shape) else 0
    raw = to_float(device.download(address + first, n), b["dtype"])
    return np.lib.stride_tricks.as_strided(raw, shape, [s * raw.itemsize for s in strides]) if n else np.empty(shape)


def check(case, addresses):
    """The worst error in units of what is allowed."""
    worst, where = 0.0, ""
    narrow = max((EPSILON[t] for t in case["types"].split() if t in EPSILON), default=EPSILON["f32"])
    names = [x["name"] for x in case["buffers"][: case["inputs"]]]
    for i in range(case["outputs"]):
        b = case["buffers"][case["inputs"] + i]
        got = strided(b, addresses[case["inputs"] + i]).flatten()
        want = np.fromfile(os.path.join(here, f"{case['expect']}_out{i}.bin"), np.float32).astype(np.float64)
        finite = np.isfinite(want)
        scale = max(np.sqrt(np.mean(want[finite] ** 2)) if finite.any() else 0.0, 1e-30)
        unit = max(EPSILON[b["dtype"]], narrow) * 4 + 2e-6
        if narrow == EPSILON["f32"] and {"q", "k", "v"} <= set(names) and b["shape"] and want.size:
            # a mean of values of both signs: what is rounded is as large as they are, not as what they cancel to
            j = names.index("v")
            values = strided(case["buffers"][j], addresses[j])
            scale = max(scale, float(np.sqrt(np.mean(values**2)))) if values.size else scale
        if narrow > EPSILON["f32"] and "gain" in names:
            unit *= 2  # the gained values are rounded once more, as operands of a product
        with np.errstate(all="ignore"):
            e = np.abs(got - want) / (np.maximum(np.abs(want), scale) * unit)
        e = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, np.where(np.isfinite(got) & finite, e, np.inf))
        if e.size and e.max() > worst:
            at = np.unravel_index(int(e.argmax()), b["shape"])
            worst, where = float(e.max()), f"{b['name']}{[int(x) for x in at]}: {got[e.argmax()]} for {want[e.argmax()]}, {int((e > 1).sum())} of {e.size} wrong"
    # the counters that the run leaves
    left = all(not device.download(a, b["bytes"]).any() for b, a in zip(case["buffers"], addresses) if b["fill"] == "zero")
    return worst, where if left else where + ", counters not 0"


def verify(case, addresses):
    """Relative error of the first output against f64 on some rows."""
    x, n, buffers = case["extents"], case["inputs"], case["buffers"]
    named = {b["name"]: (b, a) for b, a in zip(buffers[:n], addresses)}
    out = buffers[n], addresses[n]
    if case["kernel"].startswith("attention"):
        heads, kv = named["q"][0]["shape"][1], named["k"][0]["shape"][1]
        h, batch = heads - 1, x["B"] - 1
        of = lambda name, head: strided(*named[name], (batch, head))
        q, k, v, scale = of("q", h), of("k", h // (heads // kv)), of("v", h // (heads // kv)), float(strided(*named["scale"]).flatten()[0])
        rows = sorted({0, x["M"] // 3, x["M"] - 1})
        s = q[rows] @ k.T * scale
        if case["kernel"] != "attention_full":
            s[np.arange(x["N"])[None] - x["N"] > np.array(rows)[:, None] - x["M"]] = -np.inf
        p = np.exp(s - s.max(1, keepdims=True))
        want, got = p @ v / p.sum(1, keepdims=True), strided(*out, (batch, h))[rows]
    elif case["kernel"].startswith("matmul") and n == 2:
        (ab, aa), (bb, ba) = named.values()
        rows = [0, 65, ab["shape"][0] - 1]
        a, b = np.stack([strided(ab, aa, (r,)) for r in rows]), strided(bb, ba)
        want = a @ b if case["kernel"].endswith("nn") else a @ b.T
        got = np.stack([strided(*out, (r,)) for r in rows])
    elif case["kernel"] in ("gated", "project_add", "matmul_matmul", "norm_swiglu", "norm_linear", "norm_logits", "norm_qkv", "product_by_columns"):
        rows = [0, 65, buffers[n]["shape"][0] - 1]
        extents = case["extents"]
        whole = lambda name: strided(*named[name]).astype(np.float32)
        x = np.stack([strided(*named["x"], (r,)) for r in rows]).astype(np.float32)
        silu = lambda z: z / (1 + np.exp(-z))
        if "epsilon" in named:
            x = x / np.sqrt((x**2).mean(1, keepdims=True) + float(strided(*named["epsilon"]).flatten()[0]))
            x = x * whole("gain") if "gain" in named else x
        if case["kernel"] in ("norm_linear", "norm_logits", "product_by_columns"):
            want = x @ (whole("w") if case["kernel"] == "product_by_columns" else whole("w").T)
        elif case["kernel"] == "norm_qkv":
            y = (x @ whole("wq").T).reshape(len(rows), extents["H"], extents["F"], 2)
            cos, sin = (whole(name)[rows][:, None, :] for name in ("cos", "sin"))
            want = np.stack([y[..., 0] * cos - y[..., 1] * sin, y[..., 1] * cos + y[..., 0] * sin], -1).reshape(len(rows), -1)
        elif case["kernel"] == "project_add":
            want = x @ whole("w").T + np.stack([strided(*named["residual"], (r,)) for r in rows])
        elif case["kernel"] == "matmul_matmul":
            want = x @ whole("a").T @ whole("b").T
        else:
            want = silu(x @ whole("gate").T) * (x @ whole("up").T)
        got = np.stack([strided(*out, (r,)) for r in rows])
    else:
        return float("nan")
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


for line in sys.stdin:
    case = json.loads(line)
    name = f"{case['what']} splits {case['splits']}"
    print("running " + name, flush=True)
    result = dict(kernel=case["kernel"], what=case["what"], splits=case["splits"], types=case["types"], entry=case["entry"], source=source)
    try:
        addresses = [buffer(b, i) for i, b in enumerate(case["buffers"])]
        launches = [Launch(device, module, l, addresses) for l in case["launches"]]
        run = lambda: [l() for l in launches]
        run()
        device.wait()
        if case["expect"] is not None:
            result["worst"], result["where"] = check(case, addresses)
        else:
            result["error"] = verify(case, addresses) if case.get("verify", True) else float("nan")
            a, b = device.event(), device.event()
            device.record(a); run(); device.record(b); device.wait()
            once = max(device.milliseconds(a, b), 0.005)
            n = int(max(7, min(60, float(sys.argv[4]) * 1e3 / (once + 0.15))))
            pairs = [(device.event(), device.event()) for _ in range(n)]
            for a, b in pairs:
                device.fill(flush, 0, 256 << 20)
                device.record(a); run(); device.record(b)
            device.wait()
            result["ms"] = statistics.median(device.milliseconds(a, b) for a, b in pairs)
        device.free()
    except Exception as e:
        result["failed"] = str(e)
    print(json.dumps(result), flush=True)
    if "failed" in result:
        break
