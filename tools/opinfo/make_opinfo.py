#!/usr/bin/env python3
"""PyTorch's op database as archives with recordings, which `tenon check` compares.

For each sample input of each operator in torch.testing's op_db it writes
  DTYPE/OP.N.pt2              the call as torch.export.export writes it
  DTYPE/OP.N.io.safetensors   in.N tensors among its arguments, out.N what eager PyTorch gave
and with --grad, where the operator has gradients,
  DTYPE/OP.N.grad.pt2         a loss: the sum of the results times fixed numbers; the floating
                              arguments, as far as PyTorch differentiates, are its parameters
  DTYPE/OP.N.grad.io.safetensors   out.0 and grad.pN
Files of tensors have no complex128: such values go in and out as pairs of real numbers, as complex
parameters do.
What PyTorch itself cannot export is listed in DTYPE/left_out.K.txt with its reason, K being the
part of --part, as are samples whose results are random.

Runs on the CPU with one thread. Needs torch 2.13 or later, numpy, scipy, expecttest. Neither the
product nor its tests run this.

  make_opinfo.py --out opinfo                              # float32, 20 samples an op
  make_opinfo.py --out opinfo --dtype bfloat16 --samples 5 --only 'fft.*'
  make_opinfo.py --out opinfo --grad --part 0/2            # the first half of the operators
  make_opinfo.py --out opinfo_core --core                  # as run_decompositions() leaves them
  tenon check opinfo/float32 --isolate --backend eager,aot_eager,inductor
"""

import argparse
import os
import re
import signal
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch
import torch.nn as nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../recordings"))
import safetensors_file

MAX_BYTES = 64 << 20  # of one sample


class LeftOut(Exception):
    pass


def give_up(*_):
    raise LeftOut("takes longer than 30 s")


def as_pairs(t):
    return torch.view_as_real(t.resolve_conj()) if t.dtype == torch.complex128 else t


class Call(nn.Module):
    """op(*args, **kwargs) with its tensors as inputs, or those that `is_parameter` takes as such."""

    def __init__(self, op, args, kwargs, is_parameter):
        super().__init__()
        self.op = op
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.places = [i for i, v in enumerate(self.leaves) if isinstance(v, torch.Tensor)]
        self.kept = []
        for i in self.places:
            t = self.leaves[i]
            if (t.is_floating_point() or t.is_complex()) and is_parameter(t):
                kept = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
                self.register_parameter(f"p{i}", nn.Parameter(kept.detach().clone()))
                self.kept.append(i)
        self.places = [i for i in self.places if i not in self.kept]

    def inputs(self):
        return tuple(as_pairs(self.leaves[i].detach().clone()) for i in self.places)

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for i, t in zip(self.places, tensors):
            is_pairs = self.leaves[i].dtype == torch.complex128
            leaves[i] = torch.view_as_complex(t) if is_pairs else t
        for i in self.kept:
            p = getattr(self, f"p{i}")
            leaves[i] = torch.view_as_complex(p) if self.leaves[i].is_complex() else p
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        out = [t for t in pytree.tree_leaves(self.op(*args, **kwargs)) if isinstance(t, torch.Tensor)]
        return self.loss(out) if self.kept else tuple(as_pairs(t) for t in out)

    def loss(self, results):
        total = None
        for t in results:
            if t.is_complex():
                t = torch.view_as_real(t.resolve_conj())
            if not t.is_floating_point():
                continue
            weights = torch.arange(t.numel(), dtype=torch.float32).reshape(t.shape) % 7 - 3
            part = (t * weights.to(t.dtype)).sum()
            total = part if total is None else total + part
        if total is None:
            raise LeftOut("has no floating results")
        return total


def recorded(module, inputs, grad):
    io = {f"in.{i}": t for i, t in enumerate(inputs)}
    if not grad:
        with torch.no_grad():
            out = module(*[t.clone() for t in inputs])
            again = module(*[t.clone() for t in inputs])
        for i, t in enumerate(out):
            if not torch.equal(torch.nan_to_num(t), torch.nan_to_num(again[i])):
                raise LeftOut("has random results")
            io[f"out.{i}"] = t
        return io
    loss = module(*[t.clone() for t in inputs])
    loss.backward()
    io["out.0"] = loss
    for name, p in module.named_parameters():
        if p.grad is not None:
            io["grad." + name] = p.grad
    return io


# Parameters are all floating tensors, and complex ones as pairs; where PyTorch has no gradient for one of them, those for which
# the database wants gradients.
def call_of(op, args, kwargs, grad):
    if not grad:
        return Call(op, args, kwargs, lambda t: False)
    trial = Call(op, args, kwargs, lambda t: True)
    if not trial.kept:
        raise LeftOut("has no floating inputs")
    try:
        trial(*trial.inputs())
    except RuntimeError as error:
        if "is not differentiable with respect to" not in str(error):
            raise
        return Call(op, args, kwargs, lambda t: t.requires_grad)
    return Call(op, args, kwargs, lambda t: True)


def write(op, sample, path, grad, core):
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    if isinstance(sample.input, torch.Tensor) and sample.input.layout != torch.strided:
        raise LeftOut("is sparse")
    tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    if sum(t.numel() * t.element_size() for t in tensors) > MAX_BYTES:
        raise LeftOut("has large inputs")
    module = call_of(op.op, args, kwargs, grad)
    inputs = module.inputs()
    io = recorded(module, inputs, grad)
    exported = torch.export.export(module, inputs, strict=False)
    if core:
        exported = exported.run_decompositions()
    for node in exported.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise LeftOut("has random results")
    torch.export.save(exported, path + ".pt2")
    meta = {"schema": "1", "model": op.name, "torch": torch.__version__.split("+")[0]}
    meta |= {"mode": "train" if grad else "infer", "joint": "false"}
    if grad:
        meta["sgd_lr"] = "0.1"
    try:
        safetensors_file.save(io, path + ".io.safetensors", meta)
    except KeyError as unknown:
        raise LeftOut(f"has a tensor of {unknown.args[0]}")


def first_line(error):
    return next(iter(str(error).strip().splitlines()), "")[:160]


def export_sample(op, sample, folder, label, grad, core, left_out):
    path = os.path.join(folder, label)
    signal.alarm(30)
    try:
        write(op, sample, path, grad, core)
    except Exception as error:
        left_out.write(f"{label}: {type(error).__name__}: {first_line(error)}\n")
        if os.path.exists(path + ".pt2"):
            os.remove(path + ".pt2")
    finally:
        signal.alarm(0)


def export_op(op, dtype, options, folder, left_out):
    name = op.name.replace(".", "_") + ("_" + op.variant_test_name if op.variant_test_name else "")
    kinds = [False] + [True] * (options.grad and op.supports_autograd)
    for grad in kinds:
        torch.manual_seed(0)
        try:
            # Samples are made one by one, so that any of them may be the one that fails.
            samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
            for n, sample in zip(range(options.samples), samples):
                label = f"{name}.{n}" + (".grad" if grad else "")
                export_sample(op, sample, folder, label, grad, options.core, left_out)
        except Exception as error:
            left_out.write(f"{name}: no more samples: {first_line(error)}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=20, help="of an operator")
    parser.add_argument("--grad", action="store_true", help="also losses with their gradients")
    parser.add_argument("--core", action="store_true", help="decomposed into core ATen ops")
    parser.add_argument("--only", default="", help="a regular expression over operators' names")
    parser.add_argument("--part", default="0/1", help="K/N: the K-th of N parts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, give_up)
    dtype = getattr(torch, options.dtype)
    folder = os.path.join(options.out, options.dtype)
    os.makedirs(folder, exist_ok=True)
    part, parts = map(int, options.part.split("/"))
    ops = [op for op in op_db if dtype in op.supported_dtypes("cpu") and re.search(options.only, op.name)]
    with open(os.path.join(folder, f"left_out.{part}.txt"), "w") as left_out:
        for op in ops[part::parts]:
            export_op(op, dtype, options, folder, left_out)
            print(op.name, flush=True)


if __name__ == "__main__":
    main()
