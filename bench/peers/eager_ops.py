"""Eager ops of Tenon beside torch, one after the other in one run.

Needs torch in the Python that runs it; Tenon itself needs no Python.
Example: eager_ops.py --worker build/release/bench/peers/eager_ops --threads 2 --rounds 3
Prints a line for each op and size: nanoseconds of both (medians of the rounds) and the ratio
torch / Tenon, above 1 where Tenon is faster; then the geometric mean and the slowest.
"""
import argparse
import math
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

import results


def side(n):
    return int(math.sqrt(n))


def square(n):
    return torch.randn(side(n), side(n))


def positive(n):
    return torch.rand(side(n), side(n)) + 0.1


def rows_of(n):
    return torch.randn(max(n // 64, 1), 64)


def images(n):
    return torch.randn(1, 16, side(n // 16), side(n // 16))


def of_square(f):
    def make(n):
        x = square(n)
        return lambda: f(x)
    return make


def of_two(f):
    def make(n):
        x, y = square(n), positive(n)
        return lambda: f(x, y)
    return make


def made(*parts, call):
    def make(n):
        values = [p(n) for p in parts]
        return lambda: call(*values)
    return make


def symmetric(n):
    x = square(n)
    return x @ x.t() + side(n) * torch.eye(side(n))


def transposed(n):
    return square(n).t()


def row(n):
    return torch.randn(side(n))


def column(n):
    return torch.randn(side(n), 1)


def bf16(n):
    return square(n).to(torch.bfloat16)


def f16(n):
    return square(n).to(torch.float16)


def places(n):
    return torch.randint(side(n), (side(n), side(n)))


OPS = {
    "add": of_two(lambda x, y: x + y),
    "mul": of_two(lambda x, y: x * y),
    "div": of_two(lambda x, y: x / y),
    "maximum": of_two(torch.maximum),
    "gt": of_two(lambda x, y: x > y),
    "pow": of_two(lambda x, y: y.pow(x)),
    "where": of_two(lambda x, y: torch.where(x > y, x, y)),
    "lerp": of_two(lambda x, y: x.lerp(y, 0.3)),
    "add_row": made(square, row, call=lambda x, y: x + y),
    "add_column": made(square, column, call=lambda x, y: x + y),
    "mul_row": made(square, row, call=lambda x, y: x * y),
    "mul_column": made(square, column, call=lambda x, y: x * y),
    "mul_transposed": made(square, transposed, call=lambda x, y: x * y),
    "gelu_transposed": made(transposed, call=F.gelu),
    "gelu_row": made(row, call=lambda x: F.gelu(x.expand(len(x), len(x)))),
    "gelu_bf16": made(bf16, call=F.gelu),
    "gelu_f16": made(f16, call=F.gelu),
    "add_f16": made(f16, call=lambda x: x + x),
    "mul_bf16": made(bf16, bf16, call=lambda x, y: x * y),
    "softmax_bf16": made(bf16, call=lambda x: x.softmax(-1)),
    "sum_rows_bf16": made(bf16, call=lambda x: x.sum(-1)),
    "amax_columns": of_square(lambda x: x.amax(0)),
    "cumsum_columns": of_square(lambda x: x.cumsum(0)),
    "batch_norm": made(images, lambda n: torch.ones(16), lambda n: torch.zeros(16),
                       lambda n: torch.zeros(16), lambda n: torch.ones(16),
                       call=lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b)),
    "add_transposed": of_two(lambda x, y: x + y.t()),
    "relu": of_square(torch.relu),
    "exp": of_square(torch.exp),
    "tanh": of_square(torch.tanh),
    "sigmoid": of_square(torch.sigmoid),
    "gelu": of_square(F.gelu),
    "silu": of_square(F.silu),
    "sin": of_square(torch.sin),
    "clamp": of_square(lambda x: x.clamp(-0.5, 0.5)),
    "masked_fill": of_square(lambda x: x.masked_fill(x > 0, 0)),
    "to_bf16": of_square(lambda x: x.to(torch.bfloat16)),
    "add_bf16": made(bf16, call=lambda x: x + x),
    "sum": of_square(lambda x: x.sum()),
    "sum_rows": of_square(lambda x: x.sum(-1)),
    "sum_columns": of_square(lambda x: x.sum(0)),
    "mean_rows": of_square(lambda x: x.mean(-1)),
    "var_rows": of_square(lambda x: x.var(-1)),
    "amax_rows": of_square(lambda x: x.amax(-1)),
    "argmax_rows": of_square(lambda x: x.argmax(-1)),
    "softmax": of_square(lambda x: x.softmax(-1)),
    "log_softmax": of_square(lambda x: x.log_softmax(-1)),
    "layer_norm": made(rows_of, lambda n: torch.ones(64), lambda n: torch.zeros(64),
                       call=lambda x, w, b: F.layer_norm(x, [64], w, b)),
    "cumsum": of_square(lambda x: x.cumsum(-1)),
    "sort": of_square(lambda x: x.sort(-1)[0]),
    "topk": of_square(lambda x: x.topk(8, -1)[0]),
    "gather": made(square, places, call=lambda x, i: x.gather(1, i)),
    "index_select": made(rows_of, lambda n: torch.randint(max(n // 64, 1), (n // 64,)),
                         call=lambda x, i: x.index_select(0, i)),
    "scatter_add": made(square, places, call=lambda x, i: x.scatter_add(1, i, x)),
    "cat": of_two(lambda x, y: torch.cat([x, y])),
    "contiguous": of_square(lambda x: x.t().contiguous()),
    "matmul": of_two(torch.matmul),
    "linear": made(rows_of, lambda n: torch.randn(64, 64), lambda n: torch.randn(64),
                   call=F.linear),
    "conv2d": made(images, lambda n: torch.randn(16, 16, 3, 3),
                   call=lambda x, w: F.conv2d(x, w, padding=1)),
    "max_pool2d": made(images, call=lambda x: F.max_pool2d(x, 2)),
    "avg_pool2d": made(images, call=lambda x: F.avg_pool2d(x, 2)),
}


# Dense algebra, timed when it is named by --only: elements / 256 matrices of 16 x 16 in a batch.
DENSE = {
    "cholesky": made(symmetric, call=torch.linalg.cholesky),
    "solve": made(symmetric, square, call=torch.linalg.solve),
    "inv": made(symmetric, call=torch.linalg.inv),
    "qr": of_square(torch.linalg.qr),
    "svd": of_square(lambda x: torch.linalg.svd(x, full_matrices=False)),
    "eigh": made(symmetric, call=torch.linalg.eigh),
    "cholesky_batch": made(lambda n: symmetric(256).expand(n // 256, 16, 16).contiguous(),
                           call=torch.linalg.cholesky),
    "solve_batch": made(lambda n: symmetric(256).expand(n // 256, 16, 16).contiguous(),
                        lambda n: torch.randn(n // 256, 16, 1), call=torch.linalg.solve),
}


def nanoseconds_of(call):
    call()
    begin = time.perf_counter()
    call()
    once = time.perf_counter() - begin
    count = max(1, int(0.005 / max(once, 1e-9)))
    least = math.inf
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        least = min(least, (time.perf_counter() - begin) / count)
    return least * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="1024,65536,1048576")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    worker = subprocess.Popen([args.worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)

    def ask(line, answer=True):
        worker.stdin.write(line + "\n")
        worker.stdin.flush()
        return worker.stdout.readline().strip() if answer else None

    ask(f"threads {args.threads}", answer=False)
    sizes = [int(n) for n in args.sizes.split(",")]
    calls = {**OPS, **DENSE}
    names = args.only.split(",") if args.only else list(OPS)
    ours, theirs = {}, {}
    with torch.no_grad():
        for _ in range(args.rounds):
            for name in names:
                for n in sizes:
                    theirs.setdefault((name, n), []).append(nanoseconds_of(calls[name](n)))
                    ours.setdefault((name, n), []).append(float(ask(f"{name} {n}")))
    ratios = {}
    for key in ours:
        a, b = statistics.median(ours[key]), statistics.median(theirs[key])
        ratios[key] = b / a
        print(f"{key[0]:16} {key[1]:8} tenon {a:12.0f} torch {b:12.0f} ratio {b / a:6.2f}")
    mean = math.exp(statistics.mean(math.log(r) for r in ratios.values()))
    slow = [k for k in ratios if ratios[k] < 0.5]
    print(f"geometric mean {mean:.2f} over {len(ratios)}; below 0.5: {len(slow)}")
    for key in sorted(slow, key=lambda k: ratios[k]):
        print(f"  {key[0]} {key[1]}: {ratios[key]:.2f}")
    if not args.only:
        results.save("eager_ops", f"{len(names)} eager ops at {len(sizes)} sizes beside torch {torch.__version__}",
                     f"{args.threads} threads; torch's time over Tenon's.", ["", "torch over Tenon"],
                     [["geometric mean", mean], ["ops below half of torch's speed", f"{len(slow)} of {len(ratios)}"]])


if __name__ == "__main__":
    main()
