// Calls: plans by size, memory, outputs.
#include "executable.h"

#include "emit/thread_target.h"
#include "executable_call.h"

#include <loopir/reals.h>

#include <algorithm>
#include <cstring>

namespace inductor_cuda {

using loopir::Buffer;
using loopir::View;
using tenon::plugin::check;
using tenon::plugin::error;
using tenon::plugin::host;
using tenon::plugin::tensor;

namespace {

constexpr int64_t most_blocks = (int64_t{1} << 31) - 1;
constexpr size_t most_sizes = 64;  // of sizes

/// Bytes of an allocation that starts at a multiple of `alignment`.
int64_t aligned(int64_t bytes) {
  constexpr int64_t alignment = 256;
  return (bytes + alignment - 1) / alignment * alignment;
}

// The host counts what its copies write, also where that is no element.
void note_write(tn_tensor* t) {
  int64_t none = 0, one = 1;
  tn_tensor* empty = nullptr;
  check(host->tensor->as_strided(t, &none, &one, 1, t->storage_offset, &empty));
  tensor owned(empty);
  check(host->tensor->copy(empty, empty, nullptr));
}

/// Adds the symbols that the matrices of a product depend on.
void see_views(const loopir::Program& program, const loopir::Product& product,
               std::set<uint32_t>& symbols) {
  auto see = [&](const View& v) {
    for (const loopir::Ids* list : {&v.sizes, &v.strides})
      for (Id i : *list) program.expressions.add_symbols(i, symbols);
    program.expressions.add_symbols(v.offset, symbols);
  };
  see(product.left), see(product.right), see(product.result);
  if (product.bias) see(*product.bias);
}

}  // namespace

Executable::Executable(Parts parts) : parts_(std::move(parts)) {
  const loopir::Program& p = parts_.program;
  std::set<uint32_t> symbols;
  auto see = [&](Id i) { p.expressions.add_symbols(i, symbols); };
  for (const Buffer& b : p.buffers) {
    in_arena_.push_back(b.place == Buffer::Place::temporary);
    for (Id i : b.sizes) see(i);
    for (Id i : b.strides) see(i);
  }
  setup_.plan(p, parts_.accesses, parts_.is_static);
  for (Id b : setup_.buffers()) in_arena_[b] = false;
  for (const Update& u : parts_.updates) in_arena_[u.buffer] = false;
  for (const auto& [item, product] : parts_.products) see_views(p, product->product(), symbols);
  for (const auto& [item, kernel] : parts_.kernels)
    for (const KernelPlan& plan : kernel.plans) {
      see(plan.units), see(plan.blocks);
      for (const auto& [index, of] : plan.conditions.multiples) see(index);
    }
  sized_by_.assign(symbols.begin(), symbols.end());
  branches_ = branches_of(parts_, parts_.most_branches);
  if (begins_with_wait(parts_.device.arch)) launch_flags_ = TN_CUDA_LAUNCH_BEGINS_WITH_WAIT;
  check(parts_.device.api->error_flag(parts_.device.index, &flag_));
  if (parts_.profiles)
    times_ = std::make_unique<ItemTimes>(parts_.device, parts_.schedule.items.size());
}

std::string Executable::why_not_recorded() const {
  const loopir::Program& p = parts_.program;
  for (size_t i = 0; i < parts_.schedule.items.size(); ++i) {
    const auto* op = std::get_if<loopir::Extern>(&parts_.schedule.items[i]);
    if (!op) continue;
    if (op->is_random) return op->name + " is run by the host, which draws its random numbers";
    for (Id b : parts_.accesses[i].reads)
      if (p.buffers[b].place == Buffer::Place::number)
        return op->name + " is run by the host, which reads a number on the CPU";
  }
  return "";
}

// ---- plans

void Executable::plan_kernel(size_t item, std::span<const int64_t> table, Plan& out) const {
  const loopir::Program& p = parts_.program;
  auto value_of = [&](Id i) { return p.expressions.evaluate(i, table); };
  for (const KernelPlan& plan : parts_.kernels.at(item).plans) {
    Launch launch{.blocks = value_of(plan.blocks), .units = value_of(plan.units), .fits = true};
    if (launch.blocks > most_blocks)
      throw error(TN_UNIMPLEMENTED, "a kernel would need more than 2^31 blocks");
    for (const auto& [index, of] : plan.conditions.multiples)
      launch.fits = launch.fits && value_of(index) % of == 0;
    if (plan.conditions.counts_in_32_bits) {
      constexpr int64_t most = int64_t{1} << 31;
      for (Id b : plan.buffers)
        launch.fits =
            launch.fits &&
            loopir::bytes_of(p, p.buffers[b], table) / loopir::item_size(p.buffers[b].dtype) < most;
      launch.fits = launch.fits && launch.blocks * plan.form.threads < most;
    }
    if (plan.has_global_scratch()) {
      launch.scratch = aligned(out.arena_bytes);
      out.arena_bytes =
          launch.scratch + plan.scratch_bytes * std::max<int64_t>(value_of(plan.units), 1);
    }
    out.launches[item].push_back(launch);
  }
}

// The libraries' workspaces lie behind all else.
void Executable::plan_products(std::span<const int64_t> table, Plan& plan) {
  std::vector<int64_t> bytes(branches_.count, 0);
  auto see = [&](size_t item, int64_t needed) {
    int64_t& most = bytes[branches_.count > 1 ? branches_.of[item] : 0];
    most = std::max(most, needed);
  };
  for (const auto& [item, product] : parts_.products) {
    auto made = product->plan(parts_.program, table);
    see(item, made->workspace_bytes());
    plan.products.emplace(item, std::move(made));
  }
  for (const auto& [item, dnn] : parts_.dnn) see(item, dnn->workspace_bytes());
  for (int64_t n : bytes) {
    plan.workspaces.push_back(aligned(plan.arena_bytes));
    if (n > 0) plan.arena_bytes = plan.workspaces.back() + n;
  }
}

std::shared_ptr<const Executable::Plan> Executable::planned(std::span<const int64_t> table) {
  const loopir::Program& p = parts_.program;
  auto out = std::make_shared<Plan>();
  for (uint32_t s : sized_by_) out->sizes.push_back(table[s]);
  loopir::MemoryPlan memory = memory_plan(table);
  out->offsets = memory.offsets;
  out->arena_bytes = memory.bytes;
  out->launches.resize(parts_.accesses.size());
  for (const auto& [item, kernel] : parts_.kernels) plan_kernel(item, table, *out);
  plan_products(table, *out);
  for (Id b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].place == Buffer::Place::output)
      out->outputs.push_back({b, loopir::evaluated(p.expressions, p.buffers[b].sizes, table),
                              loopir::evaluated(p.expressions, p.buffers[b].strides, table)});
  return out;
}

std::shared_ptr<const Executable::Plan> Executable::plan_for(std::span<const int64_t> table) {
  auto is_same = [&](const auto& plan) {
    for (size_t i = 0; i < sized_by_.size(); ++i)
      if (plan->sizes[i] != table[sized_by_[i]]) return false;
    return true;
  };
  std::lock_guard lock(guarding_plans_);
  auto at = std::find_if(plans_.begin(), plans_.end(), is_same);
  if (at == plans_.end()) {
    auto made = planned(table);
    if (plans_.size() == most_sizes) plans_.pop_back();
    at = plans_.insert(plans_.end(), std::move(made));
  }
  std::rotate(plans_.begin(), at, at + 1);
  return plans_.front();
}

// ---- tensors

loopir::CallPlace Executable::place_of(const Call& call) const {
  return {parts_.device.type, parts_.device.index, call.c.stream};
}

tensor Executable::tensor_of(Call& call, const View& view, bool in_whole_storage) {
  const Buffer& info = parts_.program.buffers[view.buffer];
  loopir::BufferMemory memory{nullptr, call.pointers[view.buffer]};
  if (info.place == Buffer::Place::input || info.place == Buffer::Place::number)
    memory.tensor = call.c.inputs[info.slot];
  if (info.place == Buffer::Place::constant)
    memory.tensor = parts_.program.constants[info.slot].get();
  if (call.tensors[view.buffer]) memory.tensor = call.tensors[view.buffer].get();
  return loopir::tensor_of(parts_.program, view, call.table, memory, in_whole_storage,
                           place_of(call));
}

// Tensors that the caller gives have the sizes and strides of the graph.
void Executable::make_outputs(Call& call) {
  const loopir::Program& p = parts_.program;
  bool is_given = (call.c.flags & TN_CALL_OUTPUTS_GIVEN) != 0;
  for (const Plan::OutputShape& o : call.plan->outputs) {
    const Buffer& info = p.buffers[o.buffer];
    tensor& made = call.tensors[o.buffer];
    bool is_whole = p.outputs[info.slot].kind == loopir::Output::Kind::buffer;
    if (is_given && is_whole && call.c.outputs[info.slot])
      made = tensor::share(call.c.outputs[info.slot]);
    else
      made =
          tensor::strided(o.sizes, o.strides, info.dtype, parts_.device.type, parts_.device.index);
    call.pointers[o.buffer] = made->data;
  }
}

void Executable::give_outputs(Call& call) {
  const loopir::Program& p = parts_.program;
  bool is_given = (call.c.flags & TN_CALL_OUTPUTS_GIVEN) != 0;
  for (uint32_t i = 0; i < p.outputs.size(); ++i) {
    const loopir::Output& o = p.outputs[i];
    if (o.kind == loopir::Output::Kind::absent) continue;
    tensor out = o.kind == loopir::Output::Kind::buffer
                     ? tensor::share(call.tensors[o.view.buffer].get())
                     : tensor_of(call, o.view, false);
    if (!is_given || !call.c.outputs[i])
      call.c.outputs[i] = out.release();
    else if (out.get() != call.c.outputs[i])
      check(host->tensor->copy(call.c.outputs[i], out.get(), call.c.stream));
  }
}

// ---- the call

// An address of the host would be a fault that loses the device.
void* Executable::input_of(const Call& call, uint32_t slot) const {
  const tn_tensor* t = call.c.inputs[slot];
  bool is_only_one = t->device_index < 0;
  bool is_there = t->device_type == parts_.device.type &&
                  (is_only_one || t->device_index == parts_.device.index);
  if (!is_there)
    throw error(TN_INTERNAL, tenon::plugin::text(
                                 "input {} of compiled code is on another device (type {}, index "
                                 "{}) than its kernels; please report it",
                                 slot, t->device_type, t->device_index));
  return t->data;
}

void Executable::place_buffers(Call& call, std::shared_ptr<const Plan> plan) const {
  const loopir::Program& p = parts_.program;
  call.plan = std::move(plan);
  call.pointers.assign(p.buffers.size(), nullptr);
  call.tensors.resize(p.buffers.size());
  if (call.plan->arena_bytes) {
    int64_t bytes = call.plan->arena_bytes;
    call.arena = tensor::empty({&bytes, 1}, TN_U8, parts_.device.type, parts_.device.index);
  }
  for (Id b = 0; b < p.buffers.size(); ++b) {
    const Buffer& info = p.buffers[b];
    if (info.place == Buffer::Place::input) call.pointers[b] = input_of(call, info.slot);
    if (info.place == Buffer::Place::constant) call.pointers[b] = p.constants[info.slot]->data;
    if (call.plan->offsets[b] >= 0)
      call.pointers[b] = call.arena.data<std::byte>() + call.plan->offsets[b];
  }
  setup_.place([&](Id b, void* address) { call.pointers[b] = address; });
  for (const Update& u : parts_.updates) call.pointers[u.buffer] = call.pointers[u.input];
}

// Its kernels read no number of the call, and so no draw.
void Executable::prepare(tn_call& c) {
  if (setup_.is_empty()) return;
  setup_.prepare(c.inputs, parts_.device, c.stream, [&] {
    std::vector<int64_t> numbers;
    auto none_is_drawn = [](uint64_t, uint64_t* seed, uint64_t* first) { *seed = *first = 0; };
    Call call{
        .c = c,
        .table = loopir::table_of(parts_.program, {c.syms, c.n_syms}, numbers, none_is_drawn)};
    place_buffers(call, plan_for(call.table));
    for (size_t i = 0; i < parts_.accesses.size(); ++i)
      if (parts_.is_static[i]) run_item(call, i);
  });
}

void Executable::call(tn_call& c) {
  if (prepares_itself_) prepare(c);
  const loopir::Program& p = parts_.program;
  std::vector<int64_t> numbers;
  // A recording of the call draws anew each time it runs.
  auto take = [&](uint64_t blocks, uint64_t* seed, uint64_t* first) {
    const tn_cuda_api* api = parts_.device.api;
    if (TN_HAS(api, reserve_random))
      return check(api->reserve_random(parts_.device.index, c.stream, blocks, seed, first));
    check(host->svc->rng_reserve(TN_DEV_CUDA, parts_.device.index, blocks, seed, first));
  };
  Call call{.c = c, .table = loopir::table_of(p, {c.syms, c.n_syms}, numbers, take)};
  place_buffers(call, plan_for(call.table));
  make_outputs(call);
  if (times_)
    run_measured(call, c.stream);
  else if (is_branched(branches_, parts_.device, c.stream))
    run_on_branches(branches_, parts_.device, c.stream, [&](size_t i) { run_item(call, i); });
  else
    run_items(call);
  for (Id b : parts_.written_inputs) note_write(c.inputs[p.buffers[b].slot]);
  give_outputs(call);
}

}  // namespace inductor_cuda
