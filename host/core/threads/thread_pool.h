// The thread pool: the only threads that kernels of this process run on.
#pragma once

#include "core/function_ref.h"

#include <cstdint>

namespace tenon {

/// For `estimated_us` and `us_per_item`: the caller measures its first chunks instead.
inline constexpr double unknown_time = -1;

/// Runs body(chunk, worker) once for each chunk in [0, n_chunks), on the caller and on free
/// workers, and returns when all are done. What the bodies wrote is visible to the caller.
///
/// Chunk c is first offered to worker c * num_threads() / n_chunks, so that equal calls find their
/// data in the same caches; any thread may take a chunk that has not begun. `worker` is below
/// num_threads() and belongs to one thread during this call: it may index scratch of the call.
/// `estimated_us` is the time of all chunks on one thread: sleeping workers are woken only from
/// 50 us on, counting calls that follow each other closely. A body that throws ends the call early:
/// chunks that have not begun are left out and the first exception is thrown on to the caller.
/// Calls from within a body run inline. Any thread may call; while one call has the workers, others
/// run on their own threads.
///   parallel_chunks(rows, [&](int64_t row, int) { work(row); });
void parallel_chunks(int64_t n_chunks, FunctionRef<void(int64_t chunk, int worker)> body,
                     double estimated_us = unknown_time);

/// Runs body(lo, hi) over disjoint ranges that make up [begin, end). A range has at least `grain`
/// items but for the last. How many there are depends on the number of threads: no result may
/// depend on where a range ends.
void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  FunctionRef<void(int64_t lo, int64_t hi)> body,
                  double us_per_item = unknown_time);

/// The caller and its workers; at first the CPUs in the affinity mask of the process. Fewer, once
/// the system refused to start one.
int num_threads();
/// Told when that happened. Filled in by the room `report`.
extern void (*fewer_threads_slot)(int wanted, int got) noexcept;
/// 1 to max_threads; waits for calls that are under way. Not from within a body (UserError).
void set_num_threads(int n);
inline constexpr int max_threads = 1023;

/// Whether this thread is inside a body.
bool in_parallel();

}  // namespace tenon
