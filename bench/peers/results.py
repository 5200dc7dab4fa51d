"""Tables of comparisons, stored where ./dev figures finds them."""

import datetime
import json
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def machine():
    """$TENON_MACHINE, else the processor, its widest vectors and its number of virtual CPUs.

    As ./dev figures says, see tools/figures/measure.cpp.
    """
    with open("/proc/cpuinfo") as f:
        text = f.read()
    model = re.search(r"model name\s*: (.*)", text).group(1)
    vectors = ", AVX-512" if " avx512f" in text else ", AVX2" if " avx2" in text else ""
    return os.environ.get("TENON_MACHINE") or f"{model}{vectors}, {os.cpu_count()} virtual CPUs"


def save(name, title, note, columns, rows):
    """Adds a table to the peers' result of this machine and day. Cells are texts, numbers or None."""
    date = datetime.date.today().isoformat()
    where = re.sub(r"[^a-z0-9]+", "-", machine().lower()).strip("-")
    path = os.path.join(ROOT, "bench", "results", f"peers-{where}-{date}.json")
    result = {"schema": 1}
    if os.path.exists(path):
        with open(path) as f:
            result = json.load(f)
    compiler = output("c++", "-dumpfullversion").strip()
    result.update(machine=machine(), date=date, commit=output("git", "rev-parse", "--short", "HEAD").strip(),
                  compiler=f"g++ {compiler}")
    command = " ".join([os.path.relpath(os.path.abspath(sys.argv[0]), ROOT)] + sys.argv[1:])
    result.setdefault("tables", {})[name] = {
        "title": title, "note": note, "command": command, "columns": columns, "rows": rows}
    with open(path, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    print("saved to", os.path.relpath(path, ROOT), "- ./dev figures --page shows it")
