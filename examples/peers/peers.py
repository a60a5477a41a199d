"""Times what a user would pick instead of a generated kernel, on the GPU at hand, on the workloads of `bench --device cuda`.

Every contender is timed alike: overwrite the L2 cache, a wait on the device that lets the host run ahead, one call between two events; the median of
many. A comparison counts only as a ratio of two figures of one machine and one session. One JSON object a line: workload, peer, ms, tflops, gbps.

    python3 peers.py [--only prefill,decode,nine] [--quick]      # --quick leaves torch.compile out
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = "cuda"
FLUSHED = 256 << 20
AHEAD = 1_000_000  # clock cycles, about half a millisecond
BACKENDS = {"torch.sdpa cudnn": SDPBackend.CUDNN_ATTENTION, "torch.sdpa flash2": SDPBackend.FLASH_ATTENTION}

PREFILL = [
    # name, batch, heads, key heads, queries, keys, channels, causal
    ("prefill MHA B16 S1024 H16 D128", 16, 16, 16, 1024, 1024, 128, False),
    ("prefill MHA B4 S4096 H16 D128", 4, 16, 16, 4096, 4096, 128, False),
    ("prefill MHA B1 S16384 H16 D128", 1, 16, 16, 16384, 16384, 128, False),
    ("prefill MHA B4 S4096 H16 D128 causal", 4, 16, 16, 4096, 4096, 128, True),
    ("prefill MHA B1 S16384 H16 D128 causal", 1, 16, 16, 16384, 16384, 128, True),
    ("prefill GQA B4 S4096 H32/8 D128 causal", 4, 32, 8, 4096, 4096, 128, True),
    ("prefill MHA B4 S4096 H32 D64 causal", 4, 32, 32, 4096, 4096, 64, True),
]
DECODE = [
    ("decode GQA B1 N8192 H32/8 D128", 1, 32, 8, 1, 8192, 128, False),
    ("decode GQA B1 N32768 H32/8 D128", 1, 32, 8, 1, 32768, 128, False),
    ("decode GQA B8 N8192 H32/8 D128", 8, 32, 8, 1, 8192, 128, False),
    ("decode GQA B64 N1024 H32/8 D128", 64, 32, 8, 1, 1024, 128, False),
    ("decode GQA B64 N8192 H32/8 D128", 64, 32, 8, 1, 8192, 128, False),
    ("decode MHA B8 N4096 H32 D128", 8, 32, 32, 1, 4096, 128, False),
]


def wanted(workload):
    return not only or any(workload.startswith(o) for o in only)


def milliseconds(call, flush, warm=5, budget=300.0, most=200):
    for _ in range(warm):
        call()
    torch.cuda.synchronize()
    start = time.time()
    call()
    torch.cuda.synchronize()
    once = max((time.time() - start) * 1e3, 0.02)
    events = [[torch.cuda.Event(enable_timing=True) for _ in "be"] for _ in range(int(max(10, min(most, budget / once))))]
    for begin, end in events:
        flush.zero_()
        torch.cuda._sleep(AHEAD)
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return sorted(begin.elapsed_time(end) for begin, end in events)[len(events) // 2]


def row(workload, peer, prepare, flop, moved):
    """Times what `prepare` returns. A peer that cannot run a workload is itself a finding."""
    result = dict(workload=workload, peer=peer)
    try:
        torch._dynamo.reset()
        ms = milliseconds(prepare(), FLUSH)
        result.update(ms=round(ms, 5), tflops=round(flop / ms / 1e9, 1), gbps=round(moved / ms / 1e6, 1))
    except Exception as error:
        result.update(error=str(error)[:160])
    print(json.dumps(result), flush=True)


def both(workload, formula, operands, flop, moved):
    """PyTorch as written, and compiled."""
    if not wanted(workload):
        return

    def compiled():
        call = torch.compile(formula, mode="max-autotune-no-cudagraphs", dynamic=False)
        call(*operands)
        return lambda: call(*operands)

    row(workload, "torch eager", lambda: lambda: formula(*operands), flop, moved)
    if not options.quick:
        row(workload, "torch.compile max-autotune", compiled, flop, moved)


def random(*shape, scale=1.0, dtype=torch.bfloat16):
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32).mul_(scale).to(dtype)


def attention_cost(batch, heads, key_heads, queries, keys, dim, value_dim, causal):
    pairs = queries * keys - (queries * (queries - 1) / 2 if causal else 0)
    return 2.0 * batch * heads * pairs * (dim + value_dim), 2.0 * batch * (dim + value_dim) * (heads * queries + key_heads * keys)


def attention(workload, batch, heads, key_heads, queries, keys, dim, causal, dtype=torch.bfloat16, value_dim=None):
    if not wanted(workload):
        return
    value_dim = value_dim or dim
    q, k = random(batch, heads, queries, dim, dtype=dtype), random(batch, key_heads, keys, dim, dtype=dtype)
    v = random(batch, key_heads, keys, value_dim, dtype=dtype)
    flop, moved = attention_cost(batch, heads, key_heads, queries, keys, dim, value_dim, causal)
    for peer, backend in BACKENDS.items():

        def prepare(backend=backend):
            def call():
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != key_heads)

            call()
            return call

        row(workload, peer, prepare, flop, moved)


def nine():
    """The nine subgraphs of the Cleave paper (tables 3 and 4): f16 operands and results, f32 sums."""
    half = lambda *shape, scale=1.0: random(*shape, scale=scale, dtype=torch.float16)
    keys = 4096
    for phase, s in [("prefill", s) for s in (256, 1024, 4096)] + [("decode", s) for s in (16, 64, 128)]:
        columns = 4096 if phase == "prefill" else s
        name = lambda what: f"nine {phase} {what} s{s}"
        x, w = half(s, 4096), half(4096, columns, scale=0.02)
        both(name("matmul"), lambda x, w: x @ w, (x, w), 2.0 * s * 4096 * columns, 2.0 * (s * 4096 + 4096 * columns + s * columns))
        q, k, v = half(32, s, 64), half(32, keys, 64, scale=0.1), half(32, keys, 64, scale=0.1)
        chain = lambda q, k, v: (q @ k.transpose(1, 2)) @ v
        both(name("matmul+matmul"), chain, (q, k, v), 4.0 * 32 * s * keys * 64, 2.0 * 32 * 64 * (2 * s + 2 * keys))
        x, w = half(s, 64), half(64, 4096)
        both(name("matmul+rowsum"), lambda x, w: (x @ w).sum(-1, keepdim=True), (x, w), 2.0 * s * 64 * 4096, 2.0 * (s * 64 + 64 * 4096 + s))
        x, gate, up = half(s, 4096), half(4096, 14336, scale=0.02), half(4096, 14336, scale=0.02)
        swiglu = lambda x, gate, up: F.silu(x @ gate) * (x @ up)
        both(name("swiglu"), swiglu, (x, gate, up), 4.0 * s * 4096 * 14336, 2.0 * (s * 4096 + 2 * 4096 * 14336 + s * 14336))
        w = half(4096, 6144, scale=0.02)
        norm = lambda x, w: F.rms_norm(x, (4096,)) @ w
        both(name("rmsnorm+matmul"), norm, (x, w), 2.0 * s * 4096 * 6144, 2.0 * (s * 4096 + 4096 * 6144 + s * 6144))
        for kind, key_heads in (("mha", 32), ("gqa", 8), ("mqa", 1)):
            for dim in (64, 128):
                attention(f"{name(kind)} d{dim}", 1, 32, key_heads, s, keys, dim, False, torch.float16)
        if phase == "prefill":
            attention(name("mla"), 1, 128, 128, s, keys, 192, False, torch.float16, 128)
    for keys in (1024, 2048, 4096):
        # all heads share a row of the latent cache, which is key and value, and a key for positions
        operands = half(128, 128, 512, scale=0.1), half(128, keys, 512), half(128, 128, 64, scale=0.1), half(128, keys, 64)
        scores = lambda q, cache, qp, kp: (q @ cache.transpose(1, 2) + qp @ kp.transpose(1, 2)) * 192**-0.5
        latent = lambda q, cache, qp, kp: torch.softmax(scores(q, cache, qp, kp), -1) @ cache
        moved = 2.0 * 128 * (128 * 1088 + keys * 576)
        both(f"nine decode mla L{keys}", latent, operands, 2.0 * 128 * 128 * keys * 1088, moved)


def subgraphs():
    for tokens in (1, 8, 16, 4096):
        x, gain, w = random(tokens, 4096), random(4096), random(4096, 4096, scale=0.02)
        linear = lambda x, gain, w: F.linear(F.rms_norm(x, (4096,), gain), w)
        both(f"rmsnorm+linear T{tokens} 4096->4096", linear, (x, gain, w), 2.0 * tokens * 4096 * 4096, 2.0 * (2 * tokens * 4096 + 4096 * 4096))
        gate, up = random(14336, 4096, scale=0.02), random(14336, 4096, scale=0.02)
        gated = lambda x, gate, up: F.silu(F.linear(x, gate)) * F.linear(x, up)
        moved = 2.0 * (tokens * 4096 + 2 * 4096 * 14336 + tokens * 14336)
        both(f"gated mlp T{tokens} 4096->14336", gated, (x, gate, up), 4.0 * tokens * 4096 * 14336, moved)
        down, up = random(16, 4096, scale=0.02), random(4096, 16, scale=0.02)
        lora = lambda x, w, down, up: F.linear(x, w) + F.linear(F.linear(x, down), up)
        flop = 2.0 * tokens * (4096 * 4096 + 16 * (4096 + 4096))
        both(f"lora T{tokens} 4096->4096 r16", lora, (x, w, down, up), flop, 2.0 * (2 * tokens * 4096 + 4096 * 4096 + 16 * (4096 + 4096)))
    for rows, columns in ((8192, 4096), (4096, 32768), (128, 131072)):
        x, gain = random(rows, columns), random(columns)
        both(f"softmax {rows}x{columns}", lambda x: torch.softmax(x, -1), (x,), 0.0, 4.0 * rows * columns)
        both(f"rmsnorm {rows}x{columns}", lambda x, gain: F.rms_norm(x, (columns,), gain), (x, gain), 0.0, 4.0 * rows * columns)
        both(f"logsumexp {rows}x{columns}", lambda x: torch.logsumexp(x.float(), -1), (x,), 0.0, 2.0 * rows * columns)
    for name, batch, queries, keys in (("attention B4 M4096", 4, 4096, 4096), ("decode B8 N8192", 8, 1, 8192)):
        q, k, v = random(batch, 32, queries, 128), random(batch, 8, keys, 128), random(batch, 8, keys, 128)
        rms = lambda x, gain: F.rms_norm(x, (128,), gain)
        normalised = lambda q, k, v, gq, gk: F.scaled_dot_product_attention(rms(q, gq), rms(k, gk), v, enable_gqa=True)
        cost = attention_cost(batch, 32, 8, queries, keys, 128, 128, False)
        both(f"qknorm {name} H32/8 D128", normalised, (q, k, v, random(128), random(128)), *cost)


def sparse():
    """Structured masks. The block mask is built apart from the call that is timed."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    heads, length, dim = 16, 16384, 128
    masks = {
        "window 1024 causal": lambda b, h, i, j: (i >= j) & (i - j < 1024),
        "blocked 512": lambda b, h, i, j: (i // 512) == (j // 512),
        "strided 64 + window 256": lambda b, h, i, j: (i >= j) & ((i - j < 256) | ((i - j) % 64 == 0)),
        "sink 64 + window 1024": lambda b, h, i, j: (i >= j) & ((j < 64) | (i - j < 1024)),
        "longformer 256 + global 64": lambda b, h, i, j: ((i - j).abs() <= 256) | (j < 64) | (i < 64),
    }
    for name, mask in masks.items():
        workload = f"sparse {name} S{length} H{heads} D{dim}"
        if not wanted(workload):
            continue
        q, k, v = (random(1, heads, length, dim) for _ in "qkv")
        at = torch.arange(length, device=DEVICE)
        seen = sum(int(mask(0, 0, rows[:, None], at[None]).sum()) for rows in at.split(2048))

        def prepare(mask=mask):
            blocks = create_block_mask(mask, None, None, length, length, device=DEVICE)
            call = torch.compile(flex_attention)
            return lambda: call(q, k, v, block_mask=blocks)

        row(workload, "flex_attention compiled", prepare, 4.0 * heads * seen * dim, 2.0 * 4 * heads * length * dim)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    only = [o for o in options.only.split(",") if o]
    torch.manual_seed(0)
    FLUSH = torch.empty(FLUSHED, dtype=torch.int8, device=DEVICE)
    for workload in PREFILL + DECODE:
        attention(*workload)
    nine()
    subgraphs()
    sparse()
