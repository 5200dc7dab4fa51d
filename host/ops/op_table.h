// The op table: every op known to the process, with its parsed schema and what each key does.
//
// Built from the row families at first use, in-place forms derived. Rows can be added at run time
// (custom ops) but never change or go. Threads: reading needs no lock, adding takes one: an entry
// is complete before its id is counted, and lists that grow are replaced, never changed.
#pragma once

#include "core/function_ref.h"
#include "ops/op.h"
#include "ops/schema.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// A kernel from a plugin, tried before the row's own. Returns false when it does not take the
/// call.
struct ForeignKernel {
  bool (*run)(void* self, const CallArgs& call);
  void* self;
  int32_t priority;
  DeviceType device = DeviceType::cpu;
};

struct OpEntry : DispatchEntry {
  OpId id{};
  std::string name;  ///< "aten.add.Tensor"
  Schema schema;
  const OpDef* def = nullptr;
  uint64_t tags = 0;                    ///< TN_TAG_*
  const OpEntry* functional = nullptr;  ///< of a derived in-place or out form: its functional row
  bool out_form = false;                ///< writes its last arguments, not the first
  const OpEntry* in_place = nullptr;    ///< of a functional row: its in-place form
  uint32_t n_args = 0, n_returns = 0;
  uint64_t mutated_args = 0;  ///< bit i: argument i is written
  int8_t returned_arg = -1;   ///< result 0 is this argument itself, or -1
  int8_t device_of_factory = -1;
  /// Highest priority first; see add_foreign_kernel.
  std::span<const ForeignKernel> foreign_kernels() const {
    const auto* list = foreign.load(std::memory_order_acquire);
    return list ? std::span(*list) : std::span<const ForeignKernel>();
  }
  std::atomic<const std::vector<ForeignKernel>*> foreign{nullptr};
  mutable std::atomic<struct PointwiseState*> pointwise{
      nullptr};                                        ///< ops/pointwise.cpp; made at first use
  mutable std::atomic<struct VjpPlans*> vjp{nullptr};  ///< autograd/vjp_plan.cpp; made at first use
};

/// All entries, by id. Grows when custom ops are added.
size_t op_count();
const OpEntry* find_op(std::string_view name);        ///< "aten.add.Tensor", null when unknown
const OpEntry* find_added_op(std::string_view name);  ///< only if it is in the table already
OpId op_id(std::string_view name);                    ///< throws UserError with the nearest names
const std::string& name_of(OpId op);
/// Whether a call updates the running statistics of a normalisation, its arguments 3 and 4, of which
/// most schemas say nothing.
bool updates_statistics(const OpEntry& op, std::span<const Value> args);
/// The arguments that a call writes, as bits: those that the schema marks, and such statistics.
inline uint64_t written_args(const OpEntry& op, std::span<const Value> args) {
  return op.mutated_args | (updates_statistics(op, args) ? uint64_t{0b11000} : 0);
}
inline uint64_t written_args(const CallArgs& call) {
  return written_args(*call.op, {call.args, call.n_args});
}
std::vector<std::string> all_op_names();

/// Adds a row, which must live as long as the process. `prepare` gets the entry before anybody can
/// find it. Throws UserError when the name is taken or the table is full.
const OpEntry& add_op(const OpDef* row);
const OpEntry& add_op(const OpDef* row, FunctionRef<void(const OpEntry&)> prepare);
/// Installs a plugin's kernel for tensors of its device.
void add_foreign_kernel(OpId op, ForeignKernel kernel);

/// Asked when an op outside of `aten` is not found: may add it and then says so. Plugins that
/// declare ops are loaded there.
extern bool (*missing_op_slot)(std::string_view name);
/// Runs before the first op of the process; backend/backend.cpp attaches the kernels of plugins
/// there.
extern void (*first_call_slot)();
/// Runs a call of an op with a provider that no attached kernel took: attaches kernels where that
/// is still to be done, or throws what is missing. Filled in by backend/compile/plugin_kernels.cpp.
extern void (*provider_slot)(const CallArgs& call);

/// Makes results from metas on the current device kind: fakes in a FakeScope, else real tensors.
void put_metas(const OpEntry& op, Metas& metas, bool fake, Value* results);
/// Runs only the meta function of the op; results are fakes or numbers.
void run_meta(const CallArgs& call);

/// What another row's functions may want: the value that a schema gives an argument left out. Lists
/// and strings live in the entry.
Value default_of(const OpEntry& op, size_t arg);

/// Whether only the run of the call knows the sizes, or the number, that it gives.
bool gives_what_data_decides(const CallArgs& call);

}  // namespace tenon
