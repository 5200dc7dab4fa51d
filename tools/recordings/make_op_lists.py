#!/usr/bin/env python3
"""Records the classes of ops by which PyTorch's partitioner goes, for `unit_partition`.

    make_op_lists.py recordings/reference/partitioner/tables             writes op_lists.json
    make_op_lists.py --compare recordings/reference/partitioner/tables   what is other by now

Needs torch 2.13. Neither the product nor its tests run this.
"""

import operator, sys
import torch
import torch._functorch.compile_utils as compile_utils
import torch._functorch.compilers as compilers
import torch._functorch.partitioners as partitioners
from torch.utils.flop_counter import flop_registry
import recording_files

NOTES = {
    "note": "names are op packets (no overload); membership is tested on the packet. fusible ="
    " recomputable + random. 'fn:' entries are symbolic-integer scalar functions (Python operators"
    " and math helpers).",
    "impure_seeded_ops_note": "ops tagged nondeterministic_seeded count as impure for dead code"
    " elimination",
}


def name_of(op):
    is_op = isinstance(op, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
    if is_op or op is operator.getitem:
        return str(op) if is_op else "getitem"
    return f"fn:{op.__name__}"


def names(ops):
    return sorted({name_of(op) for op in ops})


def tagged(tag):
    """Packets of aten of which an overload has the tag."""
    packets = (getattr(torch.ops.aten, name) for name in dir(torch.ops.aten))
    packets = [p for p in packets if isinstance(p, torch._ops.OpOverloadPacket)]
    return names(p for p in packets if any(tag in getattr(p, o).tags for o in p.overloads()))


def record(_):
    ops = partitioners.get_default_op_list()
    recomputable, pointwise = names(ops.recomputable_ops), names(partitioners.pointwise_ops())
    lists = {
        "view_ops": names(ops.view_ops),
        "random_ops": names(ops.random_ops),
        "compute_intensive_ops": names(ops.compute_intensive_ops),
        "recomputable_ops": recomputable,
        "pointwise_tagged": pointwise,
        "cse_excluded_ops": [*names(compile_utils.rand_ops), "aten.empty"],
        "recomputable_not_pointwise": [n for n in recomputable if n not in pointwise],
        "nondeterministic_seeded": tagged(torch.Tag.nondeterministic_seeded),
        "default_decompositions": names(compilers.default_decompositions),
        "flop_counted_ops": [n for n in names(flop_registry) if n.startswith("aten.")],
    }
    return {
        "schema": "tenon.partitioner-op-lists/1",
        "torch_version": torch.__version__.split("+")[0],
        **NOTES,
        **lists,
    }


if __name__ == "__main__":
    options = recording_files.arguments(__doc__, "partitioner/tables")
    sys.exit(0 if recording_files.make(options, record) else 1)
