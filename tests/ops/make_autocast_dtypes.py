#!/usr/bin/env python3
"""Write down which dtypes PyTorch's ops give under autocast on the CPU.

Runs recorded op cases (make_op_cases.py) under torch.autocast("cpu", torch.bfloat16): of each op
the first case of each combination of argument dtypes. One line a case: op, number of the case,
dtypes of the results. autocast_dtypes_test compares Tenon with it; neither needs this script or torch.

Needs: torch, safetensors.
Example: make_autocast_dtypes.py build/release/recordings/reference/ops > tests/data/ops/autocast_dtypes.txt
"""
import json
import pathlib
import sys

import torch
from safetensors import safe_open

DTYPES = {"dtype": torch, "layout": torch, "memory_format": torch}


def decode(value, tensors):
    if isinstance(value, list):
        return [decode(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        shape, stride, dtype = value["shape"], value["stride"], getattr(torch, value["dtype"])
        # Values matter little here; elements that share their memory cannot be copied one by one.
        if any(step == 0 and size > 1 for size, step in zip(shape, stride)):
            return torch.zeros((), dtype=dtype).expand(shape)
        return torch.empty_strided(shape, stride, dtype=dtype).copy_(tensors[value["tensor"]])
    if "float" in value:
        return float(value["float"])
    if "device" in value:
        return torch.device(value["device"])
    for kind, module in DTYPES.items():
        if kind in value:
            return getattr(module, value[kind].removeprefix("torch."))
    raise ValueError(f"unknown value {value}")


def dtypes_of(value):
    if isinstance(value, torch.Tensor):
        return [str(value.dtype)[6:]]
    if isinstance(value, (list, tuple)):
        return [d for v in value for d in dtypes_of(v)]
    return []


def overload_of(name):
    _, packet, overload = name.rsplit(".", 2)
    return getattr(getattr(torch.ops.aten, packet), overload)


def cases_of(file):
    with safe_open(file, "pt") as f:
        return json.loads(f.metadata()["cases"]), {k: f.get_tensor(k) for k in f.keys()}


def main():
    for file in sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors")):
        cases, tensors = cases_of(file)
        seen = set()
        for number, case in enumerate(cases):
            args = decode(case["args"], tensors)
            kwargs = {k: decode(v, tensors) for k, v in case["kwargs"].items()}
            given = tuple(dtypes_of(args) + dtypes_of(list(kwargs.values())))
            if given in seen or not {"float32", "bfloat16"} & set(given):
                continue
            seen.add(given)
            try:
                with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                    result = overload_of(case["op"])(*args, **kwargs)
            except (RuntimeError, NotImplementedError) as error:
                print(f"{case['op']} {number}: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            print(case["op"], number, ",".join(dtypes_of(result)))


main()
