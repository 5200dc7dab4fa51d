"""Recordings that are JSON: what a script makes anew, and how it differs from what is there."""

import argparse
import json
import math
import os


def arguments(doc, kind):
    """--compare, the folder and the names of recordings."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compare", action="store_true", help="write nothing, tell what differs")
    parser.add_argument("folder", help=f"recordings/reference/{kind}")
    parser.add_argument("names", nargs="*", help="recordings; without them all of the folder")
    return parser.parse_args()


def read(folder, name):
    with open(os.path.join(folder, name + ".json")) as f:
        return json.load(f)


def names_in(folder, except_for=("index", "overhead_torch213")):
    files = sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".json"))
    return [name for name in files if name not in except_for]


def write(folder, name, recording):
    with open(os.path.join(folder, name + ".json"), "w") as f:
        f.write(json.dumps(recording, indent=1))


PROSE = ("message", "warning")  # names files, lines and addresses of PyTorch


def differences(old, new, place=""):
    """Where two JSON values differ, as lines; numbers may by 1e-5, prose does not count."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = [f"{place}/{k}: is missing" for k in old if k not in new]
        lines += [f"{place}/{k}: is new" for k in new if k not in old]
        for key in old:
            if key in new and key not in PROSE:
                lines += differences(old[key], new[key], f"{place}/{key}")
        return lines
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return [f"{place}: has {len(new)} elements, was {len(old)}"]
        return [
            line
            for i, (a, b) in enumerate(zip(old, new))
            for line in differences(a, b, f"{place}/{i}")
        ]
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (old, new))
    if numbers and math.isclose(old, new, rel_tol=1e-5, abs_tol=1e-6):
        return []
    return [] if old == new else [f"{place}: is {new!r}, was {old!r}"]


def make(options, make_one, index_of=None):
    """Each recording named anew, from what is said in it; true if nothing differed."""
    made, same = {}, True
    for name in options.names or names_in(options.folder):
        old = read(options.folder, name)
        made[name] = json.loads(json.dumps(make_one(old)))
        if not options.compare:
            write(options.folder, name, made[name])
            print(f"{name}: written")
            continue
        lines = differences(old, made[name])
        same = same and not lines
        print(f"{name}: {'as it was' if not lines else 'differs'}")
        for line in lines[:10]:
            print("  " + line)
    if index_of and not options.compare and not options.names:
        scenarios = [index_of(name, recording) for name, recording in made.items()]
        write(options.folder, "index", {"produced_by": produced_by(), "scenarios": scenarios})
    return same


def produced_by():
    import torch

    return f"torch {torch.__version__.split('+')[0]} CPU"
