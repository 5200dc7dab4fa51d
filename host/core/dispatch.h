// Dispatch: one table lookup by op and highest key decides what a call does.
//
// Key set of a call = the thread's modes | the OR of its tensors' keys | cpu, less what the thread
// masks. The highest bit indexes `op.by_key`. A key's function goes on by masking its own key and
// calling again. Order, high to low: defaults, autocast, autograd, trace, meta, device.
// Cost: about 2 ns besides the call.
#pragma once

#include "core/value.h"

#include <utility>

namespace tenon {

enum class OpId : uint32_t;

/// `device`: tensors on any device but the CPU.
enum class Key : uint8_t {
  cpu = 0,
  device = 1,
  meta = 4,
  trace = 8,
  autograd = 9,
  autocast = 10,
  defaults = 11
};
inline constexpr size_t n_keys = 12;
constexpr uint64_t bit(Key k) { return uint64_t{1} << static_cast<unsigned>(k); }
/// What the program has set for ops that it calls itself.
inline constexpr uint64_t keys_of_user = bit(Key::autocast) | bit(Key::defaults);

struct OpEntry;  // ops/op_table.h completes it

/// One call: borrowed arguments in schema order (defaults filled in), results to be filled.
struct CallArgs {
  const OpEntry* op;
  const Value* args;
  Value* results;
  uint32_t n_args, n_results;
};
using BoxedFn = void (*)(const CallArgs&);

/// The first part of every op's entry: what dispatch itself needs.
struct DispatchEntry {
  BoxedFn by_key[n_keys] = {};
};

/// The modes of a thread.
struct ThreadModes {
  uint64_t include = 0;    ///< keys added to every call
  uint64_t exclude = 0;    ///< keys removed from every call
  void* tracer = nullptr;  ///< the recorder that gets the ops, graph/record.h
  void* follower =
      nullptr;  ///< who gets them first, capture/follow.h; `tracer` is no recorder then
  uint64_t excluded_outside = 0;  ///< `exclude` before the recording began
  bool grad_enabled = true;
  bool deterministic = false;
  Dtype autocast_dtype = Dtype::bf16;  ///< autocast is on while `include` has its key
  bool autocast_cache = true;
  Device default_device = kCPU;  ///< of factories
};
extern thread_local constinit ThreadModes thread_modes;

/// The thread has the modes that it had at another time.
class ModesOf {
 public:
  explicit ModesOf(const ThreadModes& then) : now_(std::exchange(thread_modes, then)) {}
  ~ModesOf() { thread_modes = now_; }
  ModesOf(const ModesOf&) = delete;

 private:
  const ThreadModes now_;
};

/// Adds and removes keys for the lifetime of a scope.
class ModeScope {
 public:
  ModeScope(uint64_t include, uint64_t exclude)
      : include_(thread_modes.include), exclude_(thread_modes.exclude) {
    thread_modes.include |= include;
    thread_modes.exclude |= exclude;
  }
  ~ModeScope() {
    thread_modes.include = include_;
    thread_modes.exclude = exclude_;
  }
  ModeScope(const ModeScope&) = delete;
  uint64_t excluded_before() const { return exclude_; }

 private:
  uint64_t include_, exclude_;
};

/// Tensors made in the scope are fakes, and ops run their meta functions only.
struct FakeScope : ModeScope {
  FakeScope() : ModeScope(bit(Key::meta), bit(Key::trace) | bit(Key::autograd) | keys_of_user) {}
};

/// Ops in the scope are not recorded on the tape.
struct BelowAutograd : ModeScope {
  BelowAutograd() : ModeScope(0, bit(Key::autograd)) {}
};

/// Ops in the scope compute in the types that they are given, and factories on the device that they
/// are told: whatever is not user code.
struct BelowAutocast : ModeScope {
  BelowAutocast() : ModeScope(0, keys_of_user) {}
};

/// What the trace key does; filled in by graph/record.cpp.
extern BoxedFn trace_key_slot;
/// What the autograd key does; filled in by autograd/tape.cpp.
extern BoxedFn autograd_key_slot;
/// The base of a view was written so that it needs a gradient now; filled in by autograd/view.cpp.
extern bool (*stale_view_slot)(const Tensor& view);

/// Entry of an op; ids are dense. Defined by ops/op_table.cpp.
const OpEntry& entry_of(OpId op);

/// Calls an op. `args` are all of its schema's arguments; results are owned by the caller. Throws
/// what the op throws; results are then empty.
void call_op(OpId op, const Value* args, uint32_t n_args, Value* results, uint32_t n_results);
void dispatch(const OpEntry& op, const Value* args, uint32_t n_args, Value* results,
              uint32_t n_results);
/// The keys that the arguments bring.
uint64_t keys_of(const Value* args, uint32_t n_args);

}  // namespace tenon
