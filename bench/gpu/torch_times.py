#!/usr/bin/env python3
"""Times of torch for the rows of bench/gpu, in microseconds: eager, torch.compile's default mode and
its graph mode (reduce-overhead).

    bench/gpu/torch_times.py       on the machine and in the minute in which build/release/bench/gpu runs

Needs torch with CUDA. Neither the product nor its tests run this.
"""

import time
import torch
import torch.nn.functional as F


def on_device(f, n=50, rounds=7):
    """The median over rounds of the device's time a call."""
    begin, end, times = torch.cuda.Event(True), torch.cuda.Event(True), []
    for i in range(rounds + 1):
        torch.cuda.synchronize()
        begin.record()
        for _ in range(n):
            f()
        end.record()
        torch.cuda.synchronize()
        times += [begin.elapsed_time(end) * 1e3 / n] if i else []
    return sorted(times)[rounds // 2]


def in_loop(f, n=2000, rounds=5):
    """The median over rounds of the wall time a call, back to back."""
    times = []
    for i in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(n):
            f()
        torch.cuda.synchronize()
        times += [(time.perf_counter() - begin) / n * 1e6] if i else []
    return sorted(times)[rounds // 2]


def row(name, function, *args, measure=on_device):
    told = [f"eager {measure(lambda: function(*args)):.1f}"]
    for mode in (None, "reduce-overhead"):
        torch._dynamo.reset()
        compiled = torch.compile(function, mode=mode)
        told.append(f"{mode or 'default'} {measure(lambda: compiled(*args)):.1f}")
    print(f"{name:44s}", "  ".join(told), flush=True)


def mlp(x, *parameters):
    n = len(parameters) // 2
    for w, b in zip(parameters[:n], parameters[n:]):
        x = F.relu(F.linear(x, w, b))
    return x


def tensor(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, device="cuda", dtype=dtype)


def rows_of(dtype):
    n, of = 64 << 20, str(dtype).removeprefix("torch.")
    x, y = tensor(n, dtype=dtype), tensor(n, dtype=dtype)
    points = lambda x, y: torch.tanh(x * y + 0.5) * x.sigmoid()
    row(f"tanh(x y + 1/2) sigmoid(x) 64M {of}", points, x, y)
    x, w, b = tensor(8192, 4096, dtype=dtype), tensor(4096, dtype=dtype), tensor(4096, dtype=dtype)
    row(f"softmax 8192x4096 {of}", lambda x: F.softmax(x, -1), x)
    row(f"layer norm 8192x4096 {of}", lambda x, w, b: F.layer_norm(x, (4096,), w, b), x, w, b)
    row(f"sum of rows 8192x4096 {of}", lambda x: x.sum(1), x)
    row(f"sum of columns 8192x4096 {of}", lambda x: x.sum(0), x)
    row(f"gelu(x + b) * x 8192x4096 {of}", lambda x, b: F.gelu(x + b) * x, x, b)


if __name__ == "__main__":
    print(torch.__version__, torch.cuda.get_device_name())
    row("x + 1, 1024 elements, loop", lambda x: x + 1, tensor(1024), measure=in_loop)
    for dtype in (torch.float32, torch.bfloat16):
        rows_of(dtype)
    for name, dtype in (("bf16", torch.bfloat16), ("tf32", torch.float32), ("f32", torch.float32)):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        parameters = [tensor(1024, 1024, dtype=dtype) * 0.03 for _ in range(8)]
        parameters += [tensor(1024, dtype=dtype) for _ in range(8)]
        x = tensor(64, 1024, dtype=dtype)
        row(f"MLP 8 x 1024, batch 64 {name}, loop", mlp, x, *parameters, measure=in_loop)
