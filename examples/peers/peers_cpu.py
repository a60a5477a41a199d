"""Times PyTorch's CPU kernels in f32 on the workloads of `bench --device cpu`. One JSON object a line: workload, peer, ms, gflops, gbps.

    pip install torch
    python3 peers_cpu.py [--threads N] [--only matmul,attention]
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

BUDGET = 1.5  # seconds of repetitions for each workload


def milliseconds(call):
    """The median of calls repeated for the budget, at least five."""
    call()
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < BUDGET or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e3


def row(workload, peer, call, flop=0.0, moved=0.0):
    if only and not any(workload.startswith(o) for o in only):
        return
    ms = milliseconds(call)
    print(json.dumps(dict(workload=workload, peer=peer, ms=round(ms, 4), gflops=round(flop / ms / 1e6, 1), gbps=round(moved / ms / 1e6, 2))), flush=True)


def attention():
    for heads, length in ((8, 1024), (4, 4096)):
        q, k, v = (torch.randn(1, heads, length, 64) for _ in range(3))
        flop = 4.0 * heads * length * length * 64
        name = f"attention H{heads} S{length} D64"
        row(name, "torch sdpa", lambda: F.scaled_dot_product_attention(q, k, v), flop)
        row(name, "torch eager", lambda: torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v, flop)
        row(name + " causal", "torch sdpa", lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), flop / 2)
    q, k, v = torch.randn(1, 32, 1, 128), torch.randn(1, 8, 4096, 128), torch.randn(1, 8, 4096, 128)
    grouped = lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    row("decode GQA H32/8 N4096 D128", "torch sdpa", grouped, 4.0 * 32 * 4096 * 128, 8.0 * 8 * 4096 * 128)


def of_rows():
    x, gain = torch.randn(2048, 4096), torch.randn(4096)
    moved = 8.0 * x.numel()
    row("softmax 2048x4096", "torch", lambda: torch.softmax(x, -1), 0.0, moved)
    row("rmsnorm 2048x4096", "torch", lambda: F.rms_norm(x, (4096,), gain), 0.0, moved)
    row("layernorm 2048x4096", "torch", lambda: F.layer_norm(x, (4096,), gain, gain), 0.0, moved)


def products():
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    row("matmul 1024", "torch", lambda: a @ b, 2.0 * 1024**3)
    x, w, gate, up = torch.randn(128, 1024), torch.randn(1024, 1536), torch.randn(1024, 2816), torch.randn(1024, 2816)
    row("rmsnorm+matmul 128x1024->1536", "torch", lambda: F.rms_norm(x, (1024,)) @ w, 2.0 * 128 * 1024 * 1536)
    row("swiglu 128x1024->2816", "torch", lambda: F.silu(x @ gate) * (x @ up), 4.0 * 128 * 1024 * 2816)
    q, k, v = torch.randn(8, 512, 64), torch.randn(8, 4096, 64), torch.randn(8, 4096, 64)
    row("matmul+matmul 8x512x4096x64", "torch", lambda: (q @ k.transpose(1, 2)) @ v, 4.0 * 8 * 512 * 4096 * 64)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=0)
    options.add_argument("--only", default="")
    options = options.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    only = [o for o in options.only.split(",") if o]
    torch.manual_seed(0)
    with torch.inference_mode():
        products()
        attention()
        of_rows()
