#!/usr/bin/env python3
"""Records calls of PyTorch's ops, for the op table and the backends to be compared with.

Every sample of PyTorch's OpInfo database is traced before autograd (so composite ops such as
aten.linear stay whole) and below it; each distinct ATen call in the trace becomes a case: op,
arguments, results and, for floating inputs, the vector-Jacobian products with a random cotangent.
OP.safetensors holds the tensors of one op; the JSON of its cases is its metadata "cases", which
host/debug/op_recording.h reads.

    make_op_cases.py -o recordings/reference/ops --per-op 8 --seed 1

Needs torch 2.13, numpy, safetensors and expecttest. Neither the product nor its tests run this.
"""

import argparse, json, math, os, random, signal, sys, warnings
import torch
from safetensors.torch import save_file
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

warnings.filterwarnings("ignore")

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}
MAX_BYTES = 64 * 1024  # one case's tensors
RANDOM = {
    "rand",
    "randn",
    "randint",
    "bernoulli",
    "dropout",
    "multinomial",
    "normal",
    "uniform",
    "randperm",
    "rrelu",
    "rrelu_with_noise",
    "native_dropout",
    "exponential",
    "cauchy",
    "geometric",
    "log_normal",
    "poisson",
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "new_empty_strided",
    "empty_permuted",
    "_fused_dropout",
    "rand_like",
    "randn_like",
    "alpha_dropout",
    "feature_dropout",
    "feature_alpha_dropout",
    "randint_like",
}


class Timeout(Exception):
    pass


def on_alarm(*_):
    raise Timeout


class Recorder(torch.fx.Interpreter):
    """Runs a traced graph and keeps each ATen call with its concrete arguments and results."""

    def __init__(self, gm, sink):
        super().__init__(gm)
        self.sink = sink

    def call_function(self, target, args, kwargs):
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            return super().call_function(target, args, kwargs)
        saved = (
            torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda t: t.detach().clone(), (args, kwargs)
            )
            if target._schema.is_mutable
            else (args, kwargs)
        )
        out = super().call_function(target, args, kwargs)
        self.sink(target, saved[0], saved[1], out)
        return out


class Case:
    def __init__(self):
        self.tensors, self.bytes = {}, 0

    def put(self, key, t):
        t = t.detach()
        if t.is_complex() or t.is_quantized or t.layout != torch.strided or t.device.type != "cpu":
            raise ValueError("unsupported tensor")
        self.bytes += t.numel() * t.element_size()
        if self.bytes > MAX_BYTES:
            raise ValueError("too large")
        self.tensors[key] = t.contiguous().clone()
        return {
            "tensor": key,
            "dtype": str(t.dtype)[6:],
            "shape": list(t.shape),
            "stride": list(t.stride()),
        }

    def encode(self, v, key):
        if isinstance(v, torch.Tensor):
            return self.put(key, v)
        if v is None or isinstance(v, (bool, str)):
            return v
        if isinstance(v, int):
            return v
        if isinstance(v, float):
            return v if math.isfinite(v) else {"float": repr(v)}
        if isinstance(v, (list, tuple)):
            return [self.encode(x, f"{key}.{i}") for i, x in enumerate(v)]
        if isinstance(v, torch.dtype):
            return {"dtype": str(v)[6:]}
        if isinstance(v, torch.device):
            return {"device": str(v)}
        if isinstance(v, torch.layout):
            return {"layout": str(v)[6:]}
        if isinstance(v, torch.memory_format):
            return {"memory_format": str(v)[6:]}
        raise ValueError(f"unsupported argument {type(v)}")


def gradients(case, i, op, args, kwargs):
    """vjp with a cotangent from a fixed generator; None where the op is not differentiable here."""
    leaves = []

    def leaf(t):
        if t.is_floating_point():
            t = t.detach().clone().requires_grad_()
            leaves.append(t)
        return t

    try:
        a, k = torch.utils._pytree.tree_map_only(torch.Tensor, leaf, (args, kwargs))
        if not leaves:
            return None
        with torch.enable_grad():
            out = op(*a, **k)
        outs = [o for o in torch.utils._pytree.tree_leaves(out) if isinstance(o, torch.Tensor)]
        pick = [(n, o) for n, o in enumerate(outs) if o.requires_grad]
        if not pick:
            return None
        gen = torch.Generator().manual_seed(1234 + i)
        cot = [
            torch.randn(o.shape, generator=gen, dtype=torch.float64).to(o.dtype) for _, o in pick
        ]
        grads = torch.autograd.grad([o for _, o in pick], leaves, cot, allow_unused=True)
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        return None
    return {
        "cotangents": {str(n): case.put(f"{i}.ct.{n}", c) for (n, _), c in zip(pick, cot)},
        "grads": [None if g is None else case.put(f"{i}.grad.{n}", g) for n, g in enumerate(grads)],
    }


def below_autograd(info, sample, flat, sink):
    """Traces forward and backward below autograd, so that core and backward ops (aten.convolution_backward) are cases too."""
    leaves = torch.utils._pytree.tree_leaves(flat)
    spec = torch.utils._pytree.tree_structure(flat)

    def both(*xs):
        xs = [
            (
                x.detach().requires_grad_()
                if isinstance(x, torch.Tensor) and x.is_floating_point()
                else x
            )
            for x in xs
        ]
        a = torch.utils._pytree.tree_unflatten(xs, spec)
        with torch.enable_grad():
            out = [
                t
                for t in torch.utils._pytree.tree_leaves(info.op(*a, **sample.kwargs))
                if isinstance(t, torch.Tensor) and t.requires_grad
            ]
        wrt = [x for x in xs if isinstance(x, torch.Tensor) and x.requires_grad]
        return (
            torch.autograd.grad(
                out, wrt, [torch.ones_like(t) * 0.5 for t in out], allow_unused=True
            )
            if out and wrt
            else out
        )

    gm = make_fx(both)(*leaves)
    with torch.no_grad():
        Recorder(gm, sink).run(*leaves)


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("-o", "--out", required=True)
    ap.add_argument("--only", help="comma-separated OpInfo names")
    ap.add_argument("--dtypes", default="f32,bf16,i64,bool,f64")
    ap.add_argument(
        "--per-op", type=int, default=10, help="cases kept of each ATen overload and dtype set"
    )
    ap.add_argument(
        "--samples", type=int, default=12, help="OpInfo samples tried of each op and dtype"
    )
    ap.add_argument("--seed", type=int, default=1)
    o = ap.parse_args()
    os.makedirs(o.out, exist_ok=True)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, on_alarm)
    store = {}  # op name -> list of (json, tensors)
    seen = {}

    def sink(op, args, kwargs, out):
        name = op.name().replace("::", ".")
        if "." not in op.name().split("::")[1]:
            name += ".default"
        base = op.name().split("::")[1].split(".")[0].rstrip("_")
        if base in RANDOM or base.startswith(("rand", "empty")):
            return
        if base.startswith("scaled_dot_product") and any(
            isinstance(a, float) and a > 0 for a in (*args[4:5], kwargs.get("dropout_p"))
        ):
            return
        sig = tuple(
            str(t.dtype)
            for t in torch.utils._pytree.tree_leaves((args, kwargs))
            if isinstance(t, torch.Tensor)
        )
        cases = store.setdefault(name, [])
        n = seen.get((name, sig[:1]), 0)
        if n >= o.per_op:
            return
        case, i = Case(), len(cases)
        try:
            js = {
                "op": name,
                "args": [case.encode(a, f"{i}.arg.{n}") for n, a in enumerate(args)],
                "kwargs": {k: case.encode(v, f"{i}.kw.{k}") for k, v in kwargs.items()},
                "out": case.encode(out, f"{i}.out"),
            }
            js["vjp"] = None if op._schema.is_mutable else gradients(case, i, op, args, kwargs)
        except ValueError:
            return
        key = name + json.dumps([js["args"], js["kwargs"]], sort_keys=True).replace(f'"{i}.', '"')
        if key in seen:
            return
        seen[key] = 1
        seen[(name, sig[:1])] = n + 1
        cases.append((js, case.tensors))

    only = set(o.only.split(",")) if o.only else None
    for info in op_db:
        if only and info.name not in only:
            continue
        if info.name.startswith(
            ("_refs.", "linalg.", "fft.", "special.", "sparse", "signal.", "masked.", "torch.ops")
        ):
            continue
        for dt in o.dtypes.split(","):
            dtype = DTYPES[dt]
            if dtype not in info.dtypes:
                continue
            torch.manual_seed(o.seed)
            random.seed(o.seed)
            try:
                samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
            except Exception:
                continue
            random.Random(o.seed).shuffle(samples)
            for s in samples[: o.samples]:
                signal.alarm(8)
                try:
                    fn = lambda *a: info.op(*a, **s.kwargs)
                    flat = (s.input, *s.args)
                    gm = make_fx(fn, pre_dispatch=True)(*flat)
                    with torch.no_grad():
                        Recorder(gm, sink).run(*torch.utils._pytree.tree_leaves(flat))
                    if dtype.is_floating_point:
                        below_autograd(info, s, flat, sink)
                except Timeout:
                    pass
                except Exception:
                    pass
                finally:
                    signal.alarm(0)
    total = 0
    for name, cases in sorted(store.items()):
        if not cases:
            continue
        tensors = {k: t for _, ts in cases for k, t in ts.items()}
        if not tensors:
            tensors = {"none": torch.zeros(1)}
        meta = {
            "schema": "1",
            "op": name,
            "torch": torch.__version__.split("+")[0],
            "cases": json.dumps([c for c, _ in cases]),
        }
        save_file(tensors, os.path.join(o.out, name + ".safetensors"), metadata=meta)
        total += len(cases)
    print(f"{len(store)} ops, {total} cases", file=sys.stderr)


if __name__ == "__main__":
    main()
