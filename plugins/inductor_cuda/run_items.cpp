// The items of a call: launches, ops of the host.
#include "executable_call.h"

#include <algorithm>
#include <cstring>

namespace inductor_cuda {

using loopir::Buffer;
using loopir::View;
using tenon::plugin::check;
using tenon::plugin::tensor;

/// Parameters of a launch: each a word, where it lies, and what it holds, for recordings.
struct Executable::Arguments {
  explicit Arguments(size_t n) {
    words_.reserve(n);
    info_.reserve(n);
  }
  void add(const void* pointer) {
    words_.push_back(reinterpret_cast<uint64_t>(pointer));
    info_.push_back({TN_CUDA_ARG_ADDRESS, 8, 0, nullptr});
  }
  void add(int64_t number, uint32_t kind = TN_CUDA_ARG_VALUE) {
    words_.push_back(static_cast<uint64_t>(number));
    info_.push_back({kind, 8, 0, nullptr});
  }
  void add_number(const void* source, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, source, bytes);
    words_.push_back(word);
    info_.push_back({TN_CUDA_ARG_NUMBER, 8, static_cast<uint16_t>(bytes), source});
  }
  void give_to(tn_cuda_launch& launch) {
    places_.reserve(words_.size());
    for (uint64_t& word : words_) places_.push_back(&word);
    launch.args = places_.data();
    launch.arg_info = info_.data();
    launch.n_args = static_cast<uint32_t>(info_.size());
  }

 private:
  llvm::SmallVector<uint64_t, Call::few> words_;
  llvm::SmallVector<tn_cuda_arg, Call::few> info_;
  llvm::SmallVector<void*, Call::few> places_;
};

namespace {

// What a number of the table is to a recording: seeds and first blocks are those of its run.
uint32_t kind_of(const loopir::Program& program, uint32_t n_symbols, uint32_t place) {
  using Op = loopir::Real::Op;
  if (place < n_symbols) return TN_CUDA_ARG_VALUE;
  Op op = program.reals[place - n_symbols].op;
  return op == Op::seed          ? uint32_t{TN_CUDA_ARG_SEED}
         : op == Op::first_block ? uint32_t{TN_CUDA_ARG_OFFSET}
                                 : uint32_t{TN_CUDA_ARG_VALUE};
}

bool is_aligned(const KernelPlan& plan, std::span<void* const> pointers) {
  return std::all_of(plan.conditions.aligned.begin(), plan.conditions.aligned.end(),
                     [&](const auto& entry) {
                       auto address = reinterpret_cast<uintptr_t>(pointers[entry.first]);
                       return entry.second == 0 || address % entry.second == 0;
                     });
}

}  // namespace

namespace {

size_t most_arguments(const KernelPlan& plan) {
  return plan.buffers.size() + plan.host_numbers.size() + plan.numbers.size() + 6;
}

}  // namespace

/// The first version that serves the call.
size_t Executable::version_of(const Call& call, const CompiledKernel& kernel) const {
  const std::vector<Launch>& launches = call.plan->launches[kernel.item];
  size_t version = 0;
  while (version + 1 < kernel.plans.size() &&
         !(launches[version].fits && is_aligned(kernel.plans[version], call.pointers)))
    ++version;
  return version;
}

void Executable::add_arguments(const Call& call, const CompiledKernel& kernel, size_t version,
                               Arguments& out) const {
  const KernelPlan& plan = kernel.plans[version];
  for (Id b : plan.buffers) out.add(call.pointers[b]);
  if (plan.has_global_scratch())
    out.add(call.arena.data<std::byte>() + call.plan->launches[kernel.item][version].scratch);
  for (Id b : plan.host_numbers) {
    const Buffer& info = parts_.program.buffers[b];
    out.add_number(call.c.inputs[info.slot]->data,
                   static_cast<size_t>(loopir::item_size(info.dtype)));
  }
  for (uint32_t place : plan.numbers)
    out.add(call.table[place], kind_of(parts_.program, call.c.n_syms, place));
  if (plan.is_open) out.add(call.plan->launches[kernel.item][version].units);
  if (!plan.has_checks) return;
  out.add(flag_);
  out.add(kernel.position_check);
  out.add(kernel.divisor_check);
}

void Executable::launch(const Call& call, const CompiledKernel& kernel, size_t version,
                        int64_t blocks, Arguments& arguments) const {
  const CompiledKernel& first = kernel.is_group() ? *kernel.members[0] : kernel;
  tn_cuda_launch launch{};
  launch.struct_size = sizeof launch;
  launch.flags = launch_flags_;
  launch.grid[0] = static_cast<uint32_t>(blocks);
  launch.grid[1] = launch.grid[2] = 1;
  launch.block[0] = first.plans[0].form.threads;
  launch.block[1] = launch.block[2] = 1;
  launch.stream = call.c.stream;
  arguments.give_to(launch);
  check(parts_.device.api->launch(kernel.functions[version], &launch));
}

void Executable::run_kernel(Call& call, size_t item) {
  const CompiledKernel& kernel = parts_.kernels.at(item);
  size_t version = version_of(call, kernel);
  int64_t blocks = call.plan->launches[item][version].blocks;
  if (blocks == 0) return;
  Arguments arguments(most_arguments(kernel.plans[version]));
  add_arguments(call, kernel, version, arguments);
  launch(call, kernel, version, blocks, arguments);
}

// In the first version where each member may be, else all in their last one.
void Executable::run_group(Call& call, const CompiledKernel& group) {
  size_t version = 0, n_arguments = 0;
  for (const CompiledKernel* m : group.members) {
    version = std::max(version, version_of(call, *m));
    n_arguments += most_arguments(m->plans[0]);
  }
  Arguments arguments(n_arguments);
  int64_t blocks = 0;
  std::vector<int64_t> firsts;
  for (const CompiledKernel* m : group.members) {
    size_t own = std::min(version, m->plans.size() - 1);
    add_arguments(call, *m, own, arguments);
    firsts.push_back(blocks);
    blocks += call.plan->launches[m->item][own].blocks;
  }
  if (blocks == 0) return;
  for (int64_t first : firsts) arguments.add(first);
  launch(call, group, version, blocks, arguments);
}

void* Executable::workspace_of(Call& call, size_t item, int64_t bytes) const {
  uint32_t branch = branches_.count > 1 ? branches_.of[item] : 0;
  return bytes ? call.arena.data<std::byte>() + call.plan->workspaces[branch] : nullptr;
}

void Executable::run_product(Call& call, size_t item) {
  const ProductPlan& plan = *call.plan->products.at(item);
  void* workspace = workspace_of(call, item, plan.workspace_bytes());
  parts_.products.at(item)->run(plan, call.pointers, workspace, call.c.stream);
}

void Executable::run_item(Call& call, size_t item) {
  const loopir::Item& what = parts_.schedule.items[item];
  if (std::holds_alternative<loopir::Extern>(what)) return run_extern(call, item);
  if (std::holds_alternative<loopir::Product>(what)) return run_product(call, item);
  if (std::holds_alternative<loopir::Kernel>(what)) {
    if (!parts_.is_in_group[item]) return run_kernel(call, item);
    auto group = parts_.groups.find(item);
    if (group != parts_.groups.end()) run_group(call, group->second);
    return;
  }
  const DnnItem& dnn = *parts_.dnn.at(item);
  dnn.run(call.pointers, workspace_of(call, item, dnn.workspace_bytes()), call.c.stream, call.kept);
}

// Whether the tensor lies in the arena: an op that gave back its operand.
bool Executable::is_borrowed(const Call& call, const tn_tensor* t) const {
  if (!t || !call.arena) return false;
  auto* data = static_cast<const std::byte*>(t->data);
  const auto* begin = call.arena.data<const std::byte>();
  return data >= begin && data < begin + call.plan->arena_bytes;
}

void Executable::run_extern(Call& call, size_t item) {
  const loopir::ExternCall& e = parts_.externs.at(item);
  std::vector<tensor> operands;
  std::vector<tensor> results =
      e.run(parts_.program.expressions, call.table, [&](const View& view) {
        return operands.emplace_back(tensor_of(call, view, e.looks_by_place())).get();
      });
  for (size_t r = 0; r < results.size(); ++r) {
    Id buffer = e.results()[r];
    if (buffer == none) continue;
    // Memory of the arena must not leave the call, nor be read after it is used again.
    bool is_lent = is_borrowed(call, results[r].get());
    results[r] = e.as_promised(r, std::move(results[r]), parts_.program, call.table, is_lent,
                               place_of(call));
    call.pointers[buffer] = results[r]->data;
    call.tensors[buffer] = std::move(results[r]);
  }
}

}  // namespace inductor_cuda
