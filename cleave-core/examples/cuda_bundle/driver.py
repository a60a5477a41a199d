"""Runs a bundle on a GPU: compiles its sources, checks every case against the oracle's data, times the workloads beside PyTorch.

    python3 driver.py [--only TEXT] [--no-times] [--no-checks] [--jobs N]

Needs nvcc, torch and cupy. Everything is found beside this file. Prints each failure as it comes, and a short table last.
"""
import argparse, collections, concurrent.futures, ctypes, json, os, shutil, statistics, subprocess, sys, time
import numpy as np
import cupy, torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

parser = argparse.ArgumentParser()
parser.add_argument("--only", default="")
parser.add_argument("--no-times", action="store_true")
parser.add_argument("--no-checks", action="store_true")
parser.add_argument("--show", type=int, default=4, help="how many of the entries and splits timed are shown")
parser.add_argument("--budget", type=float, default=150.0, help="milliseconds for each timing")
parser.add_argument("--jobs", type=int, default=os.cpu_count())
options = parser.parse_args()
here = os.path.dirname(os.path.abspath(__file__))
work = os.environ.get("CLEAVE_CUBINS", "/tmp/cleave_cubins")
os.makedirs(work, exist_ok=True)
major, minor = torch.cuda.get_device_capability()
arch = f"sm_{major}{minor}"
nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32}
EPSILON = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}

cases = [json.loads(line) for line in open(os.path.join(here, "manifest.jsonl"))]
cases = [c for c in cases if options.only in c["kernel"] + " " + c["types"] + " " + c["what"] + " " + c["entry"]]
cases = [c for c in cases if not (options.no_times and c["expect"] is None) and not (options.no_checks and c["expect"] is not None)]


def compile(source):
    cubin = os.path.join(work, source.replace(".cu", f".{arch}.cubin"))
    start = time.time()
    ready = os.path.join(here, source.replace(".cu", f".{arch}.cubin"))
    if os.path.exists(ready):
        return source, ready, 0.0, ""
    if not os.path.exists(cubin):
        command = [nvcc, "-std=c++17", "-O3", "-Werror", "all-warnings", "-Xptxas", "-v", "-cubin", f"-arch={arch}", "-o", cubin, os.path.join(here, source)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return source, None, time.time() - start, done.stdout + done.stderr
        spills = [l for l in done.stderr.splitlines() if "spill" in l and " 0 bytes spill stores" not in l]
        return source, cubin, time.time() - start, "\n".join(spills)
    return source, cubin, 0.0, ""


sources = sorted({c["source"] for c in cases})
start = time.time()
functions, failed = {}, []
with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
    built = list(pool.map(compile, sources))
cubins = {s: c for s, c, _, _ in built}
slow = sorted(((t, s) for s, _, t, _ in built), reverse=True)[:3]
print(f"compiled {len(sources)} sources in {time.time() - start:.1f} s; slowest {[(round(t, 1), s) for t, s in slow]}", flush=True)
for s, c, _, text in built:
    if text:
        print(("FAILED " if c is None else "spills ") + s, text[:300].replace("\n", " | "), flush=True)


def function(source, launch):
    key = source, launch["symbol"]
    if key not in functions:
        f = cupy.RawModule(path=cubins[source]).get_function(launch["symbol"])
        if launch["shared"] > 48 * 1024:
            f.max_dynamic_shared_size_bytes = launch["shared"]
        functions[key] = f
    return functions[key]


loaded = {}


def buffer(b):
    n = max(b["bytes"], 16)
    if b["fill"] == "nan":
        return torch.full((n,), 255, dtype=torch.uint8, device="cuda")
    if b["fill"] == "zero":
        return torch.zeros(n, dtype=torch.uint8, device="cuda")
    if b["fill"] == "random":
        return torch.randn(n // TORCH[b["dtype"]].itemsize, device="cuda").to(TORCH[b["dtype"]]).view(torch.uint8)
    if b["fill"].startswith("value "):
        return torch.full((n // 4,), float(b["fill"][6:]), device="cuda").to(TORCH[b["dtype"]]).view(torch.uint8)
    if b["fill"] not in loaded:
        loaded[b["fill"]] = torch.from_numpy(np.fromfile(os.path.join(here, b["fill"]), np.uint8)).cuda()
    return loaded[b["fill"]]


def view(b, data):
    itemsize = TORCH[b["dtype"]].itemsize
    t = data[: len(data) // itemsize * itemsize].view(TORCH[b["dtype"]])
    return torch.as_strided(t, b["shape"], b["strides"]) if b["shape"] else t[:1]


def calls(case, buffers):
    out = []
    for l in case["launches"]:
        words = [buffers[w[1]].data_ptr() if w[0] == "a" else w[1] for w in l["words"]] or [0]
        packed = np.array(words, dtype=np.uint64).view(np.dtype([("w", np.uint64, (len(words),))]))[0]
        out.append((function(case["source"], l), (l["blocks"],), (l["threads"],), (packed,), l["shared"]))
    return out


def run(launches):
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    with stream:
        for f, grid, block, arguments, shared in launches:
            f(grid, block, arguments, shared_mem=shared)


# ---- checks -----------------------------------------------------------------------------------------------
table = collections.OrderedDict()
bad = []
for case in cases:
    if case["expect"] is None or cubins[case["source"]] is None:
        continue
    row = table.setdefault((case["kernel"], case["types"], case["entry"].split(";")[-1].strip()), [0, 0, 0.0])
    try:
        buffers = [buffer(b) for b in case["buffers"]]
        launches = calls(case, buffers)
        run(launches)
        torch.cuda.synchronize()
        worst = 0.0
        narrow = max((EPSILON[t] for t in case["types"].split() if t in EPSILON), default=2.0**-24)
        for i in range(case["outputs"]):
            b = case["buffers"][case["inputs"] + i]
            got = view(b, buffers[case["inputs"] + i]).double().flatten().cpu().numpy()
            want = np.fromfile(os.path.join(here, f"{case['expect']}_out{i}.bin"), np.float32).astype(np.float64)
            finite = np.isfinite(want)
            scale = max(np.sqrt(np.mean(want[finite] ** 2)) if finite.any() else 0.0, 1e-30)
            unit = max(EPSILON[b["dtype"]], narrow) * 4 + 2e-6
            names = [x["name"] for x in case["buffers"][: case["inputs"]]]
            if narrow == EPSILON["f32"] and {"q", "k", "v"} <= set(names) and b["shape"] and want.size:
                # a mean of values of both signs: what is rounded is as large as they are, not as what they cancel to
                j = names.index("v")
                values = view(case["buffers"][j], buffers[j]).double()
                scale = max(scale, float(values.square().mean().sqrt())) if values.numel() else scale
            if narrow > EPSILON["f32"] and "gain" in names:
                unit *= 2  # the gained values are rounded once more, as operands of a product
            with np.errstate(all="ignore"):
                e = np.abs(got - want) / (np.maximum(np.abs(want), scale) * unit)
            e = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, np.where(np.isfinite(got) & finite, e, np.inf))
            worst = max(worst, float(e.max(initial=0.0)))
        # the same bits again, over the counters that the first run left
        counters_left = all(int(x.max()) == 0 for b, x in zip(case["buffers"], buffers) if b["fill"] == "zero" and x.numel())
    except Exception as e:
        print("ERROR", case["kernel"], case["types"], case["what"], case["entry"], e, flush=True)
        if "illegal" in str(e) or "launch failure" in str(e):
            sys.exit(1)
        worst, counters_left = float("inf"), True
    row[0] += 1
    row[2] = max(row[2], worst)
    if worst > 1.0 or not counters_left:
        row[1] += 1
        bad.append(case)
        if len(bad) <= 40:
            print(f"WRONG {case['kernel']} [{case['types']}] {case['what']} splits {case['splits']}: error {worst:.3g}{'' if counters_left else ', counters not 0'}; {case['entry']}", flush=True)

# ---- times ---------------------------------------------------------------------------------------------------
flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")


def bench(fn, budget_ms=options.budget):
    for _ in range(3):
        fn()
    torch.cuda.synchronize()
    t = time.time(); fn(); torch.cuda.synchronize()
    n = int(max(8, min(100, budget_ms / ((time.time() - t) * 1e3 + 0.6))))
    begin = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    end = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    for i in range(n):
        flush.zero_()
        torch.cuda._sleep(1_000_000)
        begin[i].record(); fn(); end[i].record()
    torch.cuda.synchronize()
    return statistics.median(b.elapsed_time(e) for b, e in zip(begin, end))


def peers(case):
    """Names and functions of what a user would call instead, the flops, and the reference value of the first output."""
    x = case["extents"]
    bf = lambda *s: torch.randn(*s, device="cuda").bfloat16()
    if case["kernel"].startswith("attention"):
        heads = x["K"] * x.get("G", 1) if "K" in x else x["H"]
        kv = x.get("K", heads)
        causal = case["kernel"] == "attention"
        m, n, d = x["M"], x["N"], x["D"]
        q, k, v = bf(x["B"], heads, m, d), bf(x["B"], kv, n, d), bf(x["B"], kv, n, d)
        pairs = m * n - (m * (m - 1) / 2 if causal else 0)
        def sdpa(backend):
            def f():
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal and m > 1, enable_gqa=heads != kv)
            return f
        return [("flash2", sdpa(SDPBackend.FLASH_ATTENTION)), ("cudnn", sdpa(SDPBackend.CUDNN_ATTENTION))], 4.0 * x["B"] * heads * pairs * d, 2.0 * x["B"] * d * (2 * heads * m + 2 * kv * n)
    if case["kernel"] == "matmul":
        shapes = [b["shape"] for b in case["buffers"][:2]]
        a, b = bf(*shapes[0]), bf(*shapes[1])
        o = case["buffers"][case["inputs"]]["shape"]
        k = a.shape[1]
        g = (lambda: a @ b) if b.shape[0] == k and b.shape[1] == o[1] else (lambda: a @ b.t())
        return [("cublas", g)], 2.0 * o[0] * o[1] * k, 2.0 * (a.numel() + b.numel() + o[0] * o[1])
    if case["kernel"] == "norm_swiglu":
        m, c, j = x["M"], x["C"], x["J"]
        t, w, u, gain = bf(m, c), bf(j, c), bf(j, c), bf(c)
        def f():
            z = F.rms_norm(t, (c,), gain, 1e-5)
            return F.silu(F.linear(z, w)) * F.linear(z, u)
        return [("torch", f)], 4.0 * m * c * j, 2.0 * (m * c + 2 * j * c + m * j)
    if case["kernel"] in ("norm_qkv", "norm_logits", "project_add"):
        named = {b["name"]: b["shape"] for b in case["buffers"][: case["inputs"]]}
        weights = [bf(int(np.prod(s[:-1])), s[-1]) for n, s in named.items() if n.startswith("w")]
        t, gain = bf(*named["x"]), bf(named["x"][-1])
        if case["kernel"] == "project_add":
            r = bf(*named["residual"])
            f = lambda: torch.addmm(r, t, weights[0].t())
        else:
            def f():
                z = F.rms_norm(t, (t.shape[-1],), gain, 1e-5)
                return [F.linear(z, w) for w in weights]
        return [("torch", f)], 2.0 * t.shape[0] * sum(w.numel() for w in weights), 2.0 * (t.numel() + sum(w.numel() + t.shape[0] * w.shape[0] for w in weights))
    shape = case["buffers"][0]["shape"]
    t = bf(*shape)
    gain = bf(shape[-1])
    if "logsumexp" in case["kernel"]:
        return [("torch", lambda: torch.logsumexp(t, -1))], 0.0, 2.0 * t.numel() + 4.0 * shape[0]
    f = (lambda: torch.softmax(t, -1)) if "softmax" in case["kernel"] else (lambda: F.rms_norm(t, (shape[-1],), gain, 1e-5))
    return [("torch", f)], 0.0, 4.0 * t.numel()


def verify(case, buffers):
    """Relative error of the first output against float64 on some rows."""
    x, n = case["extents"], case["inputs"]
    v = [view(b, d) for b, d in zip(case["buffers"], buffers)]
    out = v[n].double()
    if case["kernel"].startswith("attention"):
        scale = [float(b["fill"][6:]) for b in case["buffers"][:n] if b["fill"].startswith("value") and b["dtype"] == "f32"][0]
        named = {b["name"]: t for b, t in zip(case["buffers"][:n], v)}
        q, k, w = named["q"], named["k"], named["v"]
        heads, kv = q.shape[1], k.shape[1]
        rows = torch.tensor(sorted({0, x["M"] // 3, x["M"] - 1}), device="cuda")
        h = heads - 1
        s = q[0, h, rows].double() @ k[0, h // (heads // kv)].double().t() * scale
        if case["kernel"] == "attention":
            s = s.masked_fill(torch.arange(x["N"], device="cuda")[None] - x["N"] > rows[:, None] - x["M"], float("-inf"))
        want = torch.softmax(s, -1) @ w[0, h // (heads // kv)].double()
        got = out[0, h, rows]
    elif case["kernel"] == "matmul":
        a, b = v[0][:3].double(), v[1].double()
        want = a @ b if b.shape[0] == a.shape[1] and b.shape[1] == out.shape[1] else a @ b.t()
        got = out[:3]
    elif case["kernel"] in ("softmax_rows", "logsumexp_rows"):
        t = v[0][-3:].double()
        want, got = torch.softmax(t, -1) if "softmax" in case["kernel"] else torch.logsumexp(t, -1), out[-3:]
    else:
        named = {b["name"]: t for b, t in zip(case["buffers"][:n], v)}
        z = named["x"][-3:].double()
        if "gain" in named:
            z = z * torch.rsqrt((z * z).mean(-1, keepdim=True) + float(named["epsilon"])) * named["gain"].double()
        last = lambda w: z @ w.reshape(-1, w.shape[-1])[-64:].double().t()
        if case["kernel"] == "rms_norm_rows":
            want = z[:, -64:]
        elif case["kernel"] == "project_add":
            want = last(named["w"]) + named["residual"][-3:, -64:].double()
        elif case["kernel"] == "norm_swiglu":
            want = F.silu(last(named["gate"])) * last(named["up"])
        elif case["kernel"] == "norm_logits":
            want = last(named["w"])
        elif case["kernel"] == "norm_qkv":
            want, out = last(named["wv"]), v[n + 2].double()
        else:
            return float("nan")
        got = out[-3:, -64:]
    return float((got - want).norm() / want.norm())


best = collections.OrderedDict()
for case in cases:
    if case["expect"] is not None or cubins[case["source"]] is None:
        continue
    key = case["kernel"], case["what"]
    try:
        if key not in best:
            others, flop, size = peers(case)
            times = []
            for name, f in others:
                try:
                    times.append((name, bench(f)))
                except Exception as e:
                    print("peer", name, key, str(e)[:100])
            best[key] = dict(peers=times, flop=flop, size=size, ms=float("inf"), entry="-", splits=0, error=float("nan"), all=[])
        row = best[key]
        blocks = max(l["blocks"] for l in case["launches"])
        if case["splits"] > 1 and blocks // case["splits"] > 400:
            continue
        if "shared tiles" in case["entry"] and row["flop"] > 2e11:
            continue
        buffers = [buffer(b) for b in case["buffers"]]
        launches = calls(case, buffers)
        run(launches); torch.cuda.synchronize()
        error = verify(case, buffers)
        ms = bench(lambda: run(launches))
        row["all"].append((ms, case["splits"], case["entry"].split(";")[-1].strip(), error))
        if ms < row["ms"]:
            row.update(ms=ms, entry=case["entry"].split(";")[-1].strip(), splits=case["splits"], error=error)
        del buffers, launches
    except Exception as e:
        print("ERROR", case["kernel"], case["what"], case["entry"], str(e)[:200], flush=True)
        if "illegal" in str(e) or "launch failure" in str(e):
            sys.exit(1)

print("\nchecks: kernel | types | placement | runs | wrong | worst error (1 = the allowance)")
for (kernel, types, entry), (runs, wrong, worst) in table.items():
    print(f"{kernel:16} {types:5} {entry:48} {runs:4} {wrong:4} {worst:.3f}")
print(f"{sum(r[0] for r in table.values())} runs, {len(bad)} wrong")
print("\ntimes: workload | us | TFLOP/s | GB/s | entry, splits | error | peers us (ratio > 1: faster than the peer)")
for (kernel, what), r in best.items():
    rate = f"{r['flop'] / r['ms'] / 1e9:7.1f} {r['size'] / r['ms'] / 1e6:7.0f}"
    others = ", ".join(f"{n} {t * 1e3:.1f} ({t / r['ms']:.2f}x)" for n, t in r["peers"])
    print(f"{kernel} {what:36} {r['ms'] * 1e3:9.1f} {rate}  {r['entry']} s{r['splits']}  {r['error']:.1e} | {others}")
    for ms, splits, entry, error in sorted(r["all"])[1 : options.show]:
        print(f"    {ms * 1e3:9.1f} {entry} s{splits} {error:.1e}")
