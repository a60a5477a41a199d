"""Runs a bundle on a GPU: compiles its sources, checks every case against the oracle's data, times the workloads beside PyTorch.

    python3 driver.py [--only TEXT] [--only-target sm_90a] [--no-times] [--no-checks] [--no-peers] [--no-verify] [--most N] [--until SECONDS] [--jobs N] [--limit SECONDS]

Needs nvcc and numpy, and torch for the peers. Everything is found beside this file. Each source runs in a process of its own, which is ended after
`--limit` seconds, so that a kernel that hangs costs no more. Prints each failure as it comes, and the tables last.
"""
import argparse, collections, concurrent.futures, json, os, shutil, statistics, subprocess, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--only", default="")
parser.add_argument("--only-target", default="")
parser.add_argument("--no-times", action="store_true")
parser.add_argument("--no-checks", action="store_true")
parser.add_argument("--no-peers", action="store_true")
parser.add_argument("--no-verify", action="store_true", help="what is timed is not compared with numbers of the host's")
parser.add_argument("--most", type=int, default=8, help="entries to print of a workload")
parser.add_argument("--until", type=float, default=1e9, help="seconds after which no further source is begun")
parser.add_argument("--jobs", type=int, default=os.cpu_count())
parser.add_argument("--limit", type=float, default=20.0)
parser.add_argument("--time", type=float, default=0.12, help="seconds to time a case")
options = parser.parse_args()
here = os.path.dirname(os.path.abspath(__file__))
work = os.environ.get("CLEAVE_CUBINS", "/tmp/cleave_cubins")
os.makedirs(work, exist_ok=True)
nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
capability = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap,name", "--format=csv,noheader"], capture_output=True, text=True).stdout.splitlines()
print(capability, flush=True)
native = "sm_" + (capability[0].split(",")[0].replace(".", "") if capability else "90")

cases = [json.loads(line) for line in open(os.path.join(here, "manifest.jsonl"))]
target = lambda c: "sm_90a" if any(l.get("maps") for l in c["launches"]) else native
cases = [c for c in cases if options.only in c["kernel"] + " " + c["types"] + " " + c["what"] + " " + c["entry"]]
cases = [c for c in cases if not (options.no_times and c["expect"] is None) and not (options.no_checks and c["expect"] is not None)]
cases = [c for c in cases if not options.only_target or target(c) == options.only_target]
kept = []
for c in cases:
    # a split of work that fills the device, or tiles of shared memory where there is much work, are not worth the time
    if c["expect"] is None and c["splits"] > 1 and max(l["blocks"] for l in c["launches"]) // c["splits"] > 400:
        continue
    if options.no_verify:
        c["verify"] = False
    kept.append(c)
by_source = collections.OrderedDict()
for c in kept:
    by_source.setdefault(c["source"], []).append(c)


def compile(source, more=()):
    arch = target(by_source[source][0])
    cubin = os.path.join(work, source.replace(".cu", f".{arch}{'.patient' if more else ''}.cubin"))
    start = time.time()
    if os.path.exists(cubin):
        return cubin, 0.0, ""
    command = [nvcc, "-std=c++17", "-O3", "-Xptxas", "-v", "-cubin", f"-arch={arch}", "-o", cubin, *more, os.path.join(here, source)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, time.time() - start, "FAILED " + (done.stdout + done.stderr)[:600]
    notes = [l.strip() for l in done.stderr.splitlines() if "C75" in l or ("spill" in l and " 0 bytes spill stores" not in l)]
    return cubin, time.time() - start, " | ".join(notes)


def work_on(source, cubin, which):
    """Results of a source, and what went wrong."""
    command = [sys.executable, os.path.join(here, "worker.py"), cubin, source, here, str(options.time)]
    data = "".join(json.dumps(c) + "\n" for c in which)
    # a process that hangs in the driver may leave its output open: it is read from a file
    path = os.path.join(work, "output")
    with open(path, "w") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, text=True)
        fault = ""
        try:
            process.communicate(data, timeout=options.limit + 3.0 * len(which) * max(options.time, 0.3))
        except subprocess.TimeoutExpired:
            process.kill()
            fault = "TIME LIMIT"
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                fault += ", and does not end"
    lines = open(path).read().splitlines()
    results = [json.loads(l) for l in lines if l.startswith("{")]
    other = [l for l in lines if not l.startswith("{") and not l.startswith("running")]
    if len(results) < len(which) or any("failed" in r for r in results):
        last = [l for l in lines if l.startswith("running")][-1:] or ["at the start"]
        failed = [r["failed"] for r in results if "failed" in r]
        fault = f"{fault or 'stopped'} {last[0]} {failed} {' / '.join(other[-12:])}"
    return results, fault


start = time.time()
sources = list(by_source)
with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
    built = dict(zip(sources, pool.map(compile, sources)))
slow = sorted(((round(t, 1), s) for s, (_, t, _) in built.items()), reverse=True)[:3]
print(f"compiled {len(sources)} sources in {time.time() - start:.1f} s; slowest {slow}", flush=True)
for s, (_, _, text) in built.items():
    if text:
        print(s, text, flush=True)

table, timed, wrong, examined = collections.OrderedDict(), [], 0, 0
for source, which in by_source.items():
    cubin = built[source][0]
    if cubin is None:
        continue
    if time.time() - start > options.until:
        print(f"LEFT OUT {source}", flush=True)
        continue
    which.sort(key=lambda c: c["expect"] is None)
    title = f"{which[0]['kernel']} [{which[0]['types']}] {which[0]['entry'].split(';')[-1].strip()}"
    began = time.time()
    results, fault = work_on(source, cubin, which)
    if fault:
        print(f"FAULT {source} {title}: {fault}", flush=True)
        # who waits for what, of the first ones only
        if "TIME" in fault and examined < 2 and target(which[0]) == "sm_90a":
            examined += 1
            patient, _, text = compile(source, ["-DCLEAVE_PATIENCE=1000000000"])
            if patient:
                _, told = work_on(source, patient, which[len(results) : len(results) + 1])
                print("  with patience: " + told[:3000], flush=True)
    row = table.setdefault(title, [0, 0, 0.0])
    for r in results:
        if "worst" in r:
            row[0] += 1
            row[2] = max(row[2], r["worst"])
            if r["worst"] > 1.0 or "counters" in r["where"]:
                row[1] += 1
                wrong += 1
                if wrong <= 40:
                    print(f"WRONG {title} {r['what']} splits {r['splits']}: error {r['worst']:.3g}; {r['where']}", flush=True)
        elif "ms" in r:
            timed.append(r)
    print(f"  {source}: {len(results)} of {len(which)} cases in {time.time() - began:.1f} s", flush=True)

print("\nchecks: kernel | types | placement | runs | wrong | worst error (1 = the allowance)")
for title, (runs, bad, worst) in table.items():
    if runs:
        print(f"{title:110} {runs:4} {bad:4} {worst:.3f}")
print(f"{sum(r[0] for r in table.values())} runs, {wrong} wrong", flush=True)

# ---- peers -----------------------------------------------------------------------------------------------------
rows = collections.OrderedDict()
for r in timed:
    rows.setdefault((r["kernel"], r["what"]), []).append(r)
first = {}
for c in kept:
    first.setdefault((c["kernel"], c["what"]), c)


def peers(case):
    """Names and functions of what a user would call instead, the flops, and the bytes."""
    x = case["extents"]
    bf = lambda *s: torch.randn(*s, device="cuda").bfloat16()
    name = case["kernel"]
    if name.startswith("attention"):
        heads = x["K"] * x.get("G", 1) if "K" in x else x["H"]
        kv = x.get("K", heads)
        causal = name != "attention_full"
        m, n, d, e = x["M"], x["N"], x["D"], x["E"]
        q, k, v = bf(x["B"], heads, m, d), bf(x["B"], kv, n, d), bf(x["B"], kv, n, e)
        pairs = m * n - (m * (m - 1) / 2 if causal else 0)
        def sdpa(backend):
            def f():
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal and m > 1, enable_gqa=heads != kv)
            return f
        return [("flash2", sdpa(SDPBackend.FLASH_ATTENTION)), ("cudnn", sdpa(SDPBackend.CUDNN_ATTENTION))], 2.0 * x["B"] * heads * pairs * (d + e), 2.0 * x["B"] * (heads * m * (d + e) + kv * n * (d + e))
    shapes = [b["shape"] for b in case["buffers"][: case["inputs"] + (name != "chain")]]
    if name.startswith("matmul") and len(shapes) == 3:
        a, b = bf(*shapes[0]), bf(*shapes[1])
        f = (lambda: a @ b) if name.endswith("nn") else (lambda: a @ b.t())
        return [("cublas", f)], 2.0 * shapes[0][0] * shapes[0][1] * shapes[2][1], 2.0 * (a.numel() + b.numel() + shapes[2][0] * shapes[2][1])
    if name == "chain":
        q, k, v = (bf(*s) for s in shapes)
        return [("torch", lambda: (q @ k.mT) @ v)], 4.0 * q.numel() * k.shape[1], 0.0
    if name == "matmul_matmul":
        t, a, b = bf(*shapes[0]), bf(*shapes[1]), bf(*shapes[2])
        return [("torch", lambda: (t @ a.t()) @ b.t())], 2.0 * (t.numel() * a.shape[0] + t.shape[0] * b.numel()), 0.0
    if name == "gated":
        t, w, u = bf(*shapes[0]), bf(*shapes[1]), bf(*shapes[2])
        return [("torch", lambda: F.silu(F.linear(t, w)) * F.linear(t, u))], 4.0 * t.numel() * w.shape[0], 0.0
    if name == "norm_swiglu":
        m, c, j = x["M"], x["C"], x["J"]
        t, w, u, gain = bf(m, c), bf(j, c), bf(j, c), bf(c)
        def f():
            z = F.rms_norm(t, (c,), gain, 1e-5)
            return F.silu(F.linear(z, w)) * F.linear(z, u)
        return [("torch", f)], 4.0 * m * c * j, 2.0 * (m * c + 2 * j * c + m * j)
    if name in ("norm_linear", "norm_logits", "product_by_columns"):
        m, k, j = x["M"], x.get("C", x["K"] if "K" in x else 0), x.get("J", x.get("V"))
        t, gain = bf(m, k), None if name == "product_by_columns" else bf(k)
        w = bf(k, j) if name == "product_by_columns" else bf(j, k)
        f = lambda: F.rms_norm(t, (k,), gain, 1e-5) @ (w if name == "product_by_columns" else w.t())
        return [("torch", f)], 2.0 * m * k * j, 2.0 * (m * k + k * j + m * j)
    if name == "norm_qkv":
        m, c, pairs = x["M"], x["C"], x["F"]
        t, gain, cos, sin = bf(m, c), bf(c), bf(m, 1, pairs, 1), bf(m, 1, pairs, 1)
        wq, wk, wv = bf(x["H"] * pairs * 2, c), bf(x["K"] * pairs * 2, c), bf(x["J"], c)
        whole = torch.cat([wq, wk, wv])
        def turned(y, heads):
            y = y.reshape(m, heads, pairs, 2)
            return y * cos + torch.stack((-y[..., 1], y[..., 0]), -1) * sin
        def f():
            y = F.linear(F.rms_norm(t, (c,), gain, 1e-5), whole)
            q, k, v = y.split([wq.shape[0], wk.shape[0], wv.shape[0]], -1)
            return turned(q, x["H"]), turned(k, x["K"]), v
        products = lambda: F.linear(F.rms_norm(t, (c,), gain, 1e-5), whole)
        return [("torch", f), ("torch without the rotation", products)], 2.0 * m * c * whole.shape[0], 0.0
    if name == "project_add":
        t, w, r = bf(*shapes[0]), bf(*shapes[1]), bf(*shapes[2])
        return [("torch", lambda: torch.addmm(r, t, w.t()))], 2.0 * t.numel() * w.shape[0], 0.0
    if name in ("softmax_rows", "rms_norm_rows"):
        t = bf(*shapes[0])
        f = (lambda: torch.softmax(t, -1)) if "softmax" in name else (lambda: F.rms_norm(t, (t.shape[-1],), None, 1e-5))
        return [("torch", f)], 0.0, 4.0 * t.numel()
    return [], 0.0, 0.0


def bench(fn, flush, budget_ms=120.0):
    for _ in range(3):
        fn()
    torch.cuda.synchronize()
    t = time.time(); fn(); torch.cuda.synchronize()
    n = int(max(7, min(60, budget_ms / max((time.time() - t) * 1e3, 0.02))))
    begin = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    end = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    for i in range(n):
        flush.zero_()
        begin[i].record(); fn(); end[i].record()
    torch.cuda.synchronize()
    return statistics.median(b.elapsed_time(e) for b, e in zip(begin, end))


others = {}
if rows and not options.no_peers:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    for key in rows:
        try:
            found, flop, size = peers(first[key])
        except Exception as e:
            print("peers of", key, str(e)[:200])
            continue
        times = []
        for name, f in found:
            try:
                times.append((name, bench(f, flush)))
            except Exception as e:
                print("peer", name, key, str(e)[:100])
        others[key] = times, flop, size
        torch.cuda.empty_cache()

print("\ntimes: workload | us | TFLOP/s | GB/s | entry, splits | relative error | peers us (ratio > 1: faster than the peer)")
for key, results in rows.items():
    times, flop, size = others.get(key, ([], 0.0, 0.0))
    results.sort(key=lambda r: r["ms"])
    best = results[0]["ms"]
    print(f"{key[0]} {key[1]}: " + ", ".join(f"{n} {t * 1e3:.1f} us {flop / t / 1e9:.1f} TFLOP/s ({t / best:.2f}x)" for n, t in times))
    for r in results[: options.most]:
        print(f"    {r['ms'] * 1e3:9.1f} {flop / r['ms'] / 1e9:7.1f} {size / r['ms'] / 1e6:7.0f}  {r['entry'].split(';')[-1].strip()} s{r['splits']}  {r['error']:.1e}")
