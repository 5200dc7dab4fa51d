// Graph texts that run.
#include "harness/fuzz.h"
#include "harness/run_checks.h"

TENON_FUZZ_TARGET(graph_run) { tenon::fuzz::check_runs(input); }
