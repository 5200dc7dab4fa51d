// What meta functions answered: results of calls on fakes by op and arguments.
//
// Only calls are remembered whose arguments are all known numbers and whose results are tensors of
// their own: no views, no writes, no symbols, nothing data-dependent. Flags:
// dynamo.fake_tensor_cache_enabled; dynamo.fake_tensor_cache_crosscheck_enabled asks the meta
// function all the same and compares. Counters: graph.meta_cache_hits, graph.meta_cache_misses.
//
// Threads: any; one lock guards the table.
#pragma once

#include "core/dispatch.h"

namespace tenon {

/// run_meta() through the cache, or another function that gives fakes for a call; each has answers of its
/// own.
void run_meta_cached(const CallArgs& call, BoxedFn run);
void forget_meta_results();

}  // namespace tenon
