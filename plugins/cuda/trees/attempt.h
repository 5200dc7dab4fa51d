// Recording a function once: from its launches to a recording that can run.
#pragma once

#include <tenon/plugin.hpp>

#include "recorded.h"

#include <list>

namespace tenon::cuda::trees {

/// What tn_cuda_function_info says, kept.
struct Description {
  uint32_t flags, outputs;
  int32_t device;
  std::string name;
  std::vector<uint32_t> input_flags, output_flags;
  std::vector<std::string> input_names, output_names;
  uint32_t n_syms;
  std::vector<std::vector<int64_t>> capture_sizes;
  uint32_t max_sizes, size_warn_limit, rerecord_limit, min_nodes;
  uint64_t arena_bytes;
  void* self;
  tn_status* (*launch)(void* self, tn_call*);
  void (*drop)(void* self);
  std::vector<plugin::tensor> constants;

  /// Throws TN_INVALID_ARGUMENT.
  static Description read(const tn_cuda_function_info& info);
};

/// Calls of equal dtypes, sizes, strides, symbols and sharing of storages, on one manager.
struct Variant {
  std::vector<int64_t> signature;
  /// In the order in which they were made, and are tried: so the same calls find the same ones.
  std::vector<std::unique_ptr<Recorded>> recordings;
  std::vector<char> staged;          // inputs that are copied into the arena
  std::optional<Reason> why_direct;  // for good
  uint64_t calls = 0, made = 0, made_for_statics = 0;
  uint32_t failures = 0;
};

/// What came of it.
struct Attempt {
  std::unique_ptr<Recorded> recorded;  ///< null: see why
  Reason why;
  std::vector<Draw> draws;                      ///< that it has taken, to be taken again
  std::vector<std::pair<void*, size_t>> freed;  ///< meanwhile: to be freed behind the first run
  bool runs_once = false;  ///< what it works on stays with somebody else: it cannot run again
};

/// Records what `about` launches for the call, which has drawn `drawn` in attempts before this one.
/// With the manager's lock.
Attempt attempt_recording(Manager& manager, const Description& about, Variant& variant,
                          const tn_call& call, std::vector<Draw> drawn = {});

}  // namespace tenon::cuda::trees
