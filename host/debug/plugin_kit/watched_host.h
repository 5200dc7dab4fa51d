// A host table that watches one plugin: it counts what the plugin takes and gives back, refuses
// memory, cancels, damages stored bytes and shows unknown things, as a check asks.
//
// There is one per process, as there is one host table per plugin. Threads: all functions of the
// table from any thread; faults are set while no call of the plugin runs.
#pragma once

#include <tenon/plugin.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace tenon::kit {

/// What the table does wrong on purpose. All off at start.
struct HostFaults {
  std::atomic<int64_t> fail_request{-1};    ///< the request of memory that fails; counted down
  std::atomic<int64_t> cancel_after{-1};    ///< calls of progress() that are answered with 0
  std::atomic<bool> damage_cache{false};    ///< cache_get gives bytes that were not put
  std::atomic<bool> hide_options{false};    ///< no option is declared
  std::atomic<bool> strange_args{false};    ///< the first argument of each node has an unknown kind
  std::atomic<bool> strange_values{false};  ///< each value is of an unknown kind
  std::atomic<bool> guard_outputs{false};   ///< tensors of `empty` lie between guard zones
};
HostFaults& host_faults();
/// Switches all faults off.
void clear_host_faults();

/// What the plugin did so far.
struct HostCounts {
  int64_t memory_requests = 0;  ///< svc->alloc, tensor->empty and run->run_op
  int64_t progress_calls = 0, guards = 0, cache_gets = 0;
  int64_t live_blocks = 0, live_block_bytes = 0;  ///< of svc->alloc
  int64_t live_artifacts = 0;                     ///< of interpret and compile_with
  int64_t live_blobs = 0, live_statuses = 0;
};
HostCounts host_counts();
/// The first rule that a call of the table broke since it was last asked, in words; empty: none.
std::string take_first_misuse();

/// Tells of a rule that was broken elsewhere; the first one counts.
void note_misuse(const std::string& what);

/// The table, complete and of this version.
const tn_host* watched_host();

/// The watched table as an older host gives it: minor 0, every table cut to the length that it had
/// in 1.0, what may be missing NULL; what lies behind a table cannot be read.
const tn_host* older_host();
/// As a newer host gives it: 64 bytes of 0xA5 behind each table.
const tn_host* newer_host();
/// The functions that older_host() leaves out, for the report.
std::string missing_in_older_host();

}  // namespace tenon::kit
