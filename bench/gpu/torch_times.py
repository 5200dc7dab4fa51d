#!/usr/bin/env python3
"""Times of torch for the rows of bench/gpu, in microseconds: eager, torch.compile's default mode and
its graph mode (reduce-overhead).

    bench/gpu/torch_times.py             on the machine and in the minute in which build/release/bench/gpu runs
    bench/gpu/torch_times.py networks    networks, training steps, and the time of first calls

Needs torch with CUDA. Neither the product nor its tests run this.
"""

import sys
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


def parts():
    n = 64 << 20
    x, at = tensor(n), torch.randint(0, 8192, (1 << 20,), device="cuda")
    row("sum of all 64M f32", lambda x: x.sum(), x)
    row("running sum 64M f32", lambda x: x.cumsum(0), x)
    row("rand_like 64M f32", torch.rand_like, x)
    row("randn_like 64M f32", torch.randn_like, x)
    row("dropout 64M f32", lambda x: F.dropout(x, 0.3), x)
    row("transposed copy 8192x8192 f32", lambda x: x.t().contiguous(), x.view(8192, 8192))
    grad = torch.ops.aten.embedding_dense_backward
    row("gradient of an embedding, 1M hits", lambda s, at: grad(s, at, 8192, -1, False),
        tensor(1 << 20, 64), at)


class Layer(torch.nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.into, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.wide, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.heads = heads

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.into(x).view(b, n, 3, self.heads, w // self.heads).unbind(2)
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        h = self.first(x + self.out(a.transpose(1, 2).reshape(b, n, w)))
        return self.second(h + self.narrow(F.gelu(self.wide(h), approximate="tanh")))


def first_call(name, function):
    """A cold compile, with an empty folder in TORCHINDUCTOR_CACHE_DIR."""
    torch._dynamo.reset()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.compile(function)()
    torch.cuda.synchronize()
    print(f"{name + ', first call':44s} {(time.perf_counter() - begin) * 1e6:.0f}", flush=True)


def loops(name, function, n):
    first_call(name, function)
    row(name + ", loop", function, measure=lambda f: in_loop(f, n))


def networks():
    import torchvision
    bert = torch.nn.Sequential(*[Layer() for _ in range(12)]).cuda().bfloat16()
    x = tensor(8, 128, 768, dtype=torch.bfloat16)
    with torch.no_grad():
        loops("BERT-like 12 x 768, 8 x 128 bf16", lambda: bert(x), 100)
    net = torch.nn.Sequential(Layer(), Layer()).cuda().bfloat16()

    def train_row(name, after):
        told = []
        for mode in ("eager", None, "reduce-overhead"):
            torch._dynamo.reset()
            forward = lambda x: net(x).square().mean()
            optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, capturable=True)
            if mode != "eager":
                forward = torch.compile(forward, mode=mode)

            def update():
                optimizer.step()
            update = update if mode == "eager" else torch.compile(update, mode=mode)

            def step():
                for p in net.parameters():
                    p.grad = None
                torch.compiler.cudagraph_mark_step_begin()
                forward(x).backward()
                if after:
                    update()
            try:
                begin = time.perf_counter()
                step()
                torch.cuda.synchronize()
                told.append(f"first {(time.perf_counter() - begin) * 1e6:.0f}")
                told.append(f"{mode or 'default'} {in_loop(step, 100):.1f}")
            except Exception as e:
                told.append(f"{mode}: {str(e)[:60]}")
        print(f"{name:44s}", "  ".join(told), flush=True)
    train_row("2-layer transformer bf16, gradients, loop", False)
    train_row("2-layer transformer bf16, AdamW step, loop", True)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    for batch, dtype in ((1, torch.float32), (64, torch.float32), (64, torch.bfloat16)):
        resnet = torchvision.models.resnet18().eval().cuda().to(dtype)
        images = tensor(batch, 3, 224, 224, dtype=dtype)
        if dtype == torch.bfloat16:
            resnet = resnet.to(memory_format=torch.channels_last)
            images = images.to(memory_format=torch.channels_last)
        with torch.no_grad():
            of = str(dtype).removeprefix("torch.")
            loops(f"resnet18 batch {batch} {of}", lambda: resnet(images), 30 if batch > 1 else 300)


def another_input():
    inputs, f = [tensor(64 << 20) for _ in range(4)], None
    f = torch.compile(lambda x: torch.tanh(x * 0.5) * x, mode="reduce-overhead")
    turn = iter(range(1 << 30))
    print(f"another input of 256 MiB, reduce-overhead {on_device(lambda: f(inputs[next(turn) % 4])):.1f}")


if __name__ == "__main__":
    if sys.argv[1:] == ["networks"]:
        networks(), another_input(), sys.exit()
    print(torch.__version__, torch.cuda.get_device_name())
    row("x + 1, 1024 elements, loop", lambda x: x + 1, tensor(1024), measure=in_loop)
    for dtype in (torch.float32, torch.bfloat16):
        rows_of(dtype)
    parts()
    for name, dtype in (("bf16", torch.bfloat16), ("tf32", torch.float32), ("f32", torch.float32)):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        layers = [layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
        mlp, x = torch.nn.Sequential(*layers).cuda().to(dtype), tensor(64, 1024, dtype=dtype)
        with torch.no_grad():
            row(f"MLP 8 x 1024, batch 64 {name}, loop", mlp, x, measure=in_loop)
