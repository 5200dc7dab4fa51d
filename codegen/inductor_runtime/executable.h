// A compiled graph: thunks over memory.
//
// Model: items run in order, each over pointers that are known before the call but for inputs,
// outputs and what externs make. What depends on parameters only (packed weights, folded scales)
// is made once and again when a parameter's version changes: it is prepacked. A call takes a
// context (the arena and its tables) out of a pool, so calls may run at the same time; prepacked
// data is shared and is replaced, never written, while somebody uses it.
#pragma once

#include "call_lives.h"
#include "inductor_runtime/calls/library_calls.h"
#include "kernel_interface.h"
#include "linked_code.h"
#include "prepacking.h"
#include "regions.h"
#include "run_options.h"

#include <loopir/making/extern_call.h>
#include <loopir/making/item_facts.h>
#include <loopir/verify.h>
#include <tenon/plugin.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace inductor {

/// What the compiler found out, for describe().
struct Statistics {
  uint32_t failed_kernels = 0;
  uint32_t kernels = 0, distinct_kernels = 0, kernel_cache_hits = 0, extern_calls = 0,
           fused_nodes = 0, regions = 0, epilogues = 0, prologues = 0, products = 0,
           convolutions = 0, streamed = 0, tuned = 0, views_removed = 0, prepacked_items = 0;
  int64_t planned_bytes = 0, naive_bytes = 0, lower_bound = 0, object_bytes = 0;
  double compile_ms = 0, codegen_ms = 0;
  bool from_cache = false;
  std::vector<std::string> extern_ops;
  std::string loops_before_text, loops_text, fusion_text, memory_text;
  std::string buffers_json;
};

/// The parts of an executable, made by compile.cpp or read from a saved form.
struct Parts {
  loopir::Program program;
  loopir::Schedule schedule;
  std::vector<loopir::Access> accesses;          // by item
  std::vector<KernelInterface> kernels;          // by item; empty symbol where it is none
  std::vector<KernelCode> functions;             // by item
  std::map<size_t, loopir::ExternCall> externs;  // by item that the host runs
  std::vector<bool> is_prepacked;                // by item
  std::vector<Region> regions;
  Statistics statistics;
  RunOptions options;
};

std::vector<NamedKernel> named_kernels(const Parts& parts);

/// Time spent in one item.
struct ItemTime {
  std::atomic<int64_t> calls{0}, nanoseconds{0};
};

/// What a pointer of a kernel points to that is all of a call.
struct KernelOperand {
  enum class Kind : uint8_t { input, output, constant };
  Kind kind;
  uint32_t slot;  // of the call's inputs or outputs
  void* constant;
};

class Executable {
 public:
  static constexpr uint32_t flags = TN_AF_STEALS_INPUTS;

  explicit Executable(Parts parts);
  ~Executable();
  void call(tn_call& c);
  /// Whether calls may be given their outputs: those are all that is made, by one kernel.
  bool fills_outputs() const { return !operands_.empty(); }
  /// Code as text, for describe(): by who has LLVM.
  using Disassembler = std::string (*)(std::span<const NamedKernel>);
  void set_disassembler(Disassembler d) { disassembler_ = d; }
  /// All but the constants; load_executable() in saved_form.h takes it.
  std::string serialize();
  std::string describe(int32_t what) const;
  const Statistics& statistics() const { return parts_.statistics; }
  /// For who saves it in a form of its own, which changes nothing.
  Parts& parts() { return parts_; }

 private:
  struct Context;
  struct Call;
  class Lease;

  void sort_buffers();
  void prepare_item(size_t item);
  void drop_regions();
  /// What depends on parameters only.
  void prepack_items(Call& call);
  void run_items(Call& call);
  void run_item(Call& call, size_t item);
  bool run_region(Call& call, const Region& region);
  std::string profile_text() const;
  std::string items_json() const;
  struct StepFacts {
    size_t item;  // the first one, which has the times
    loopir::ItemFacts facts;
  };
  std::vector<StepFacts> step_facts() const;
  void describe_memory();
  class KernelCall;
  void run_kernel(const KernelCall& kernel, size_t item, std::span<const int64_t> symbols);
  void fill_outputs(tn_call& c, std::span<const int64_t> symbols);
  const std::string& kernel_name(size_t item) const {
    return std::get<loopir::Kernel>(parts_.schedule.items[item]).name;
  }
  void run_extern(Call& call, size_t item);
  void place_arena(Context& context, std::span<const int64_t> symbols);
  void lay_out(Context& context, std::span<const int64_t> symbols);
  std::shared_ptr<Prepacked> prepacked_for(Call& call);
  void find_prepacked(Call& call);
  void give_outputs(Call& call);
  tenon::plugin::tensor tensor_of(Call& call, const loopir::View& view,
                                  bool in_whole_storage = false);

  Parts parts_;
  Disassembler disassembler_ = nullptr;
  std::vector<loopir::Access> steps_;                             // of a call: a region is one
  std::vector<bool> is_static_, in_arena_, in_prepacked_memory_;  // by buffer
  std::vector<std::unique_ptr<LibraryCall>> library_calls_;       // by item
  std::vector<bool> packs_;  // by item: weights are packed by the library
  enum class ItemKind : uint8_t { kernel, library, host };
  std::vector<ItemKind> kinds_;                          // by item
  std::unique_ptr<std::atomic<bool>[]> keeps_operands_;  // by item: an op that did so once
  std::vector<std::pair<loopir::Id, uint32_t>> inputs_;  // buffer, input; of those that are used
  std::vector<loopir::Id> prepacked_buffers_;            // those of prepacked items
  std::vector<uint32_t> sized_by_;                       // symbols that sizes of memory depend on
  loopir::Ids sized_in_arena_;                           // buffers whose bytes depend on them
  bool has_prepacked_ = false;
  std::unique_ptr<ItemTime[]> times_;         // by item, where a profile is wanted
  mutable std::atomic<bool> is_told_{false};  // somebody has asked for those times
  loopir::Ids made_buffers_;                  // outputs, and those that externs make
  CallLives lives_;
  std::vector<KernelOperand> operands_;   // where outputs may be given; empty: they may not
  std::vector<bool> is_last_of_buffer_;   // by output
  const std::unique_ptr<Context> first_;  // see Lease
  std::atomic<bool> is_first_lent_{false};
  std::mutex guarding_pool_, guarding_prepacked_;
  std::vector<std::unique_ptr<Context>> pool_;
  Prepacking prepacking_;
  std::shared_ptr<Prepacked> prepacked_;
  const Prepacked* newest_prepacked_ = nullptr;  // guarded as the pool is, which keeps no other
  std::atomic<int64_t> packed_bytes_{0};         // of what was prepacked last
};

}  // namespace inductor
