// A compiled graph: launches over memory.
//
// Model: items run in order on the call's stream. What depends on sizes (where temporaries lie, how
// many blocks, which version of a kernel, which algorithm of the vendor's library) is found once for
// each tuple of sizes, and kept for the 64 that were used last; a call then takes one block of
// memory, launches, and gives the block back on the stream behind the last launch.
#pragma once

#include "dnn/item.h"
#include "kernel_code.h"
#include "measuring/item_times.h"
#include "products/product_item.h"
#include "recorded/branches.h"
#include "setup.h"
#include "updates.h"

#include <loopir/making/extern_call.h>
#include <tenon/plugin.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace inductor_cuda {

struct Statistics {
  uint32_t failed_kernels = 0, kernels = 0, fused_nodes = 0, extern_calls = 0, prepacked_items = 0;
  uint32_t grouped_kernels = 0;
  uint32_t spilled_kernels = 0;  // whose threads keep something in memory for want of registers
  std::vector<std::string> extern_ops;
  CodeStatistics code;
  double compile_ms = 0, codegen_ms = 0;
  std::string loops_before_text, loops_text, fusion_text;
};

/// What the vendor's libraries may do for an executable.
struct LibraryUse {
  ProductOptions products;
  DnnOptions dnn;
  bool tunes = false;  // their algorithms are tried, each problem for so long
  int64_t tuning_ms = 0;
};

/// The parts of an executable.
struct Parts {
  loopir::Program program;
  loopir::Schedule schedule;
  std::vector<loopir::Access> accesses;                     // by item
  std::vector<loopir::Access> accesses_of_launches;         // by item: of a group at its first one
  std::vector<bool> is_static;                              // by item: what Setup keeps
  std::vector<Update> updates;                              // of inputs, where they lie
  std::vector<Id> written_inputs;                           // buffers
  std::map<size_t, CompiledKernel> kernels;                 // by item
  std::map<size_t, CompiledKernel> groups;                  // by first item
  std::vector<bool> is_in_group;                            // by item
  std::map<size_t, loopir::ExternCall> externs;             // by item that the host runs
  std::map<size_t, std::unique_ptr<ProductItem>> products;  // by item
  std::map<size_t, std::unique_ptr<const DnnItem>> dnn;     // by item that cuDNN does
  std::shared_ptr<const ProductsAhead> products_ahead;      // null: they are planned by calls
  LibraryUse library_use;
  Device device;
  bool reuses_memory = true;
  uint32_t most_branches = 1;  // of a recording
  bool profiles = false;
  Statistics statistics;
};

class Executable;
/// The slowest items first: microseconds a call, share, name.
void log_profile(const Executable& code);
/// What load_executable() in saved_form.h needs. The parts are not changed.
std::string saved_form(Parts& parts);

/// Threads: any.
class Executable {
 public:
  static constexpr uint32_t flags = TN_AF_WRITES_GIVEN_OUTPUTS;

  explicit Executable(Parts parts);
  /// Logs the table of a profile that nobody has asked for.
  ~Executable() {
    if (times_ && !is_told_) log_profile(*this);
  }
  void call(tn_call& c);
  /// All but the constants; load_executable() in saved_form.h takes it.
  std::string serialize() { return saved_form(parts_); }
  /// Makes what depends on parameters only, where it is not there. Each call begins with it, unless
  /// the caller has taken that on, since a call that is recorded cannot.
  void prepare(tn_call& c);
  void leave_preparing_to_caller() { prepares_itself_ = false; }
  bool has_setup() const { return !setup_.is_empty(); }
  const Setup& setup() const { return setup_; }
  std::string describe(int32_t what) const;
  /// Whether it launches nothing but its own kernels.
  bool is_only_kernels() const {
    return parts_.products.empty() && parts_.dnn.empty() && parts_.externs.empty();
  }
  /// What of it a recording would repeat as it was, or empty: ops of the host that draw, or that
  /// read numbers on the CPU.
  std::string why_not_recorded() const;
  const Parts& parts() const { return parts_; }
  const Branches& branches() const { return branches_; }
  loopir::MemoryPlan memory_plan(std::span<const int64_t> table) const {
    return loopir::plan_memory(parts_.program, parts_.accesses_of_launches, table, in_arena_,
                               parts_.reuses_memory, branches_.done_before);
  }
  /// By item, where a profile is wanted; else empty.
  std::vector<ItemTime> times() const {
    is_told_ = true;
    return times_ ? times_->all() : std::vector<ItemTime>();
  }

 private:
  struct Launch;
  struct Plan;
  struct Call;
  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> table);
  std::shared_ptr<const Plan> planned(std::span<const int64_t> table);
  void plan_products(std::span<const int64_t> table, Plan& plan);
  void plan_kernel(size_t item, std::span<const int64_t> table, Plan& plan) const;
  void* input_of(const Call& call, uint32_t slot) const;
  void place_buffers(Call& call, std::shared_ptr<const Plan> plan) const;
  void make_outputs(Call& call);
  struct Arguments;
  size_t version_of(const Call& call, const CompiledKernel& kernel) const;
  void add_arguments(const Call& call, const CompiledKernel& kernel, size_t version,
                     Arguments& out) const;
  void launch(const Call& call, const CompiledKernel& kernel, size_t version, int64_t blocks,
              Arguments& arguments) const;
  void run_kernel(Call& call, size_t item);
  void run_group(Call& call, const CompiledKernel& group);
  void run_product(Call& call, size_t item);
  void* workspace_of(Call& call, size_t item, int64_t bytes) const;
  void run_item(Call& call, size_t item);
  void run_items(Call& call) {
    for (size_t i = 0; i < parts_.accesses.size(); ++i)
      if (!parts_.is_static[i]) run_item(call, i);
  }
  void run_measured(Call& call, tn_stream* stream) {
    ItemTimes::Call measured(*times_, stream);
    for (size_t i = 0; i < parts_.accesses.size(); ++i)
      if (!parts_.is_static[i]) measured.measure(i, [&] { run_item(call, i); });
    measured.finish();
  }
  void run_extern(Call& call, size_t item);
  void give_outputs(Call& call);
  tenon::plugin::tensor tensor_of(Call& call, const loopir::View& view, bool in_whole_storage);
  bool is_borrowed(const Call& call, const tn_tensor* t) const;
  loopir::CallPlace place_of(const Call& call) const;

  Parts parts_;
  Setup setup_;
  bool prepares_itself_ = true;
  uint32_t launch_flags_ = 0;
  std::vector<bool> in_arena_;  // by buffer
  Branches branches_;
  std::vector<uint32_t> sized_by_;  // the symbols that plans depend on
  tn_cuda_error_flag* flag_ = nullptr;
  std::unique_ptr<ItemTimes> times_;  // where a profile is wanted
  mutable std::atomic<bool> is_told_{false};
  std::mutex guarding_plans_;                       // guards plans_
  std::vector<std::shared_ptr<const Plan>> plans_;  // the one that was used last first
};

/// What is told of code in several parts.
std::string describe(std::span<const Executable* const> parts, int32_t what);

}  // namespace inductor_cuda
