// Calls: memory, what is prepacked, outputs.
#include "executable.h"

#include "calls/placed.h"
#include "executable_call.h"
#include "saved_form.h"

#include <algorithm>

namespace inductor {

using loopir::Buffer;
using loopir::Id;
using loopir::none;
using loopir::View;
using tenon::plugin::error;
using tenon::plugin::host;
using tenon::plugin::tensor;

namespace {

/// Buffers of inputs, and which input each is. Callables may take many that nothing reads.
std::vector<std::pair<Id, uint32_t>> used_inputs(const Parts& parts) {
  std::set<Id> used;
  for (const loopir::Access& access : parts.accesses) {
    used.insert(access.reads.begin(), access.reads.end());
    used.insert(access.writes.begin(), access.writes.end());
  }
  for (const KernelInterface& k : parts.kernels) used.insert(k.buffers.begin(), k.buffers.end());
  for (const loopir::Output& o : parts.program.outputs)
    if (o.kind != loopir::Output::Kind::absent) used.insert(o.view.buffer);
  used.erase(none);
  std::vector<std::pair<Id, uint32_t>> inputs;
  for (Id b : used)
    if (const Buffer& info = parts.program.buffers[b]; info.place == Buffer::Place::input)
      inputs.emplace_back(b, info.slot);
  return inputs;
}

/// Of the only kernel, where it is over inputs, constants and outputs: the call needs no memory of
/// its own. Else nothing.
std::vector<KernelOperand> operands_of_call(const Parts& parts) {
  using Kind = KernelOperand::Kind;
  const loopir::Program& p = parts.program;
  auto is_buffer = [](const loopir::Output& o) { return o.kind == loopir::Output::Kind::buffer; };
  if (p.outputs.empty() || !std::ranges::all_of(p.outputs, is_buffer)) return {};
  std::vector<KernelOperand> operands;
  for (Id b : parts.kernels[0].buffers) {
    const Buffer& info = p.buffers[b];
    if (info.place == Buffer::Place::input)
      operands.push_back({Kind::input, info.slot, nullptr});
    else if (info.place == Buffer::Place::output)
      operands.push_back({Kind::output, info.slot, nullptr});
    else if (info.place == Buffer::Place::constant)
      operands.push_back({Kind::constant, 0, p.constants[info.slot]->data});
    else
      return {};
  }
  return operands;
}

loopir::MemoryPlan plan_of(const RunOptions& options, const loopir::Program& program,
                           std::span<const loopir::Access> steps, std::span<const int64_t> bytes,
                           const std::vector<bool>& in_arena) {
  return loopir::plan_bytes(program, steps, bytes, in_arena,
                            options.reuses_memory && options.plans_memory);
}

}  // namespace

/// A context for one call: where nothing is prepacked the first one, which costs one locked
/// instruction, and for calls beside that one some out of the pool.
class Executable::Lease {
 public:
  explicit Lease(Executable& owner) : owner_(owner), context_(owner.first_.get()) {
    if (!owner.has_prepacked_ && !owner.is_first_lent_.exchange(true, std::memory_order_acquire))
      return;
    std::lock_guard lock(owner.guarding_pool_);
    if (owner.pool_.empty()) {
      pooled_ = std::make_unique<Context>();
    } else {
      pooled_ = std::move(owner.pool_.back());
      owner.pool_.pop_back();
    }
    context_ = pooled_.get();
  }
  ~Lease() {
    if (context_->is_placed)
      for (Id b : owner_.made_buffers_) context_->tensors[b] = tensor();
    if (!pooled_) {
      owner_.is_first_lent_.store(false, std::memory_order_release);
      return;
    }
    std::lock_guard lock(owner_.guarding_pool_);
    if (context_->packed.of.get() != owner_.newest_prepacked_) context_->packed = {};
    try {
      owner_.pool_.push_back(std::move(pooled_));
    } catch (const std::bad_alloc&) {  // the next call makes another one
    }
  }
  Context& operator*() { return *context_; }

 private:
  Executable& owner_;
  Context* context_;
  std::unique_ptr<Context> pooled_;
};

Executable::Executable(Parts parts)
    : parts_(std::move(parts)), first_(std::make_unique<Context>()) {
  size_t n = parts_.schedule.items.size();
  library_calls_.resize(n), packs_.assign(n, false);
  keeps_operands_ = std::make_unique<std::atomic<bool>[]>(n);
  sort_buffers();
  for (size_t i = 0; i < n; ++i) prepare_item(i);
  for (Id b = 0; b < in_prepacked_memory_.size(); ++b)
    if (in_prepacked_memory_[b]) prepacked_buffers_.push_back(b);
  for (size_t i = 0; i < n; ++i)
    kinds_.push_back(library_calls_[i]            ? ItemKind::library
                     : parts_.externs.contains(i) ? ItemKind::host
                                                  : ItemKind::kernel);
  inputs_ = used_inputs(parts_);
  drop_regions();
  lives_ = CallLives(parts_.program, parts_.accesses, parts_.is_prepacked, parts_.regions);
  steps_ = steps_of(parts_.accesses, parts_.regions);
  describe_memory();
  if (parts_.options.profiles) times_ = std::make_unique<ItemTime[]>(n);
  bool is_one_kernel = n == 1 && kinds_[0] == ItemKind::kernel && !times_ && !has_prepacked_ &&
                       !parts_.is_prepacked[0];
  if (is_one_kernel) operands_ = operands_of_call(parts_);
}

void Executable::sort_buffers() {
  const loopir::Program& p = parts_.program;
  is_static_.assign(p.buffers.size(), false);
  in_arena_.assign(p.buffers.size(), false);
  in_prepacked_memory_.assign(p.buffers.size(), false);
  std::set<uint32_t> sizes;
  for (Id b = 0; b < p.buffers.size(); ++b) {
    const Buffer& info = p.buffers[b];
    bool is_input = info.place == Buffer::Place::input;
    if (info.place == Buffer::Place::output) made_buffers_.push_back(b);
    std::set<uint32_t> own;
    if (info.place == Buffer::Place::temporary || info.place == Buffer::Place::output)
      for (const loopir::Ids* list : {&info.sizes, &info.strides})
        for (Id id : *list) p.expressions.add_symbols(id, own);
    sizes.insert(own.begin(), own.end());
    in_arena_[b] = info.place == Buffer::Place::temporary;
    if (in_arena_[b] && !own.empty()) sized_in_arena_.push_back(b);
    is_static_[b] =
        info.place == Buffer::Place::constant || (is_input && p.is_static_input[info.slot]);
  }
  sized_by_.assign(sizes.begin(), sizes.end());
  for (const auto& [item, e] : parts_.externs)
    for (Id b : e.results())
      if (b != none) made_buffers_.push_back(b);
  std::set<Id> later;  // the last output that is made of a buffer may take its tensor
  is_last_of_buffer_.assign(p.outputs.size(), false);
  for (size_t i = p.outputs.size(); i-- > 0;)
    if (p.outputs[i].kind != loopir::Output::Kind::absent)
      is_last_of_buffer_[i] = later.insert(p.outputs[i].view.buffer).second;
}

void Executable::prepare_item(size_t i) {
  loopir::Program& p = parts_.program;
  loopir::Item& item = parts_.schedule.items[i];
  auto watch = [&](Id buffer) {
    has_prepacked_ = true;
    const Buffer& info = p.buffers[buffer];
    if (info.place == Buffer::Place::input) prepacking_.watch(info.slot);
  };
  if (parts_.is_prepacked[i]) {
    const loopir::Access& access = parts_.accesses[i];
    for (Id b : access.reads) watch(b);
    for (Id b : access.writes) {
      is_static_[b] = true;
      in_prepacked_memory_[b] =
          in_prepacked_memory_[b] || in_arena_[b];  // it may have several writers
      in_arena_[b] = false;
    }
  }
  // `shaping`: views whose sizes say how weights are packed.
  auto keep = [&](const auto& call, const std::vector<const View*>& weights,
                  std::initializer_list<const View*> shaping) {
    bool is_constant = parts_.options.packs_weights;
    for (const View* w : weights)
      is_constant = is_constant && is_static_[w->buffer] && symbols_of(p, {w}).empty();
    library_calls_[i] = prepare(p, call, is_constant, parts_.options.workers);
    packs_[i] = is_constant && !parts_.is_prepacked[i];
    if (!is_constant) return;
    for (const View* w : weights) watch(w->buffer);
    prepacking_.add_sizes(symbols_of(p, shaping));
  };
  if (auto* product = std::get_if<loopir::Product>(&item)) keep(*product, {&product->right}, {});
  if (auto* c = std::get_if<loopir::Convolution>(&item))
    keep(*c, {&c->weights}, {&c->source, &c->result});
  if (auto* r = std::get_if<loopir::Recurrence>(&item)) {
    std::vector<const View*> weights;
    for (const loopir::RecurrentDirection& d : r->directions) weights.push_back(&d.weights);
    keep(*r, weights, {&r->directions[0].result});
  }
  if (auto* g = std::get_if<loopir::ConvolutionGradient>(&item))
    library_calls_[i] = prepare(p, *g, parts_.options.workers);
  if (auto* attention = std::get_if<loopir::Attention>(&item))
    library_calls_[i] = prepare(p, *attention, parts_.options.workers);
}

// Those of code that was made elsewhere, where this processor has no product that runs by rows.
void Executable::drop_regions() {
  std::vector<int64_t> hints;
  for (const loopir::Symbol& s : parts_.program.expressions.symbols) hints.push_back(s.hint);
  auto is_lost = [&](const Region& region) {
    for (size_t i = region.first; i <= region.last; ++i)
      if (library_calls_[i] && !parts_.is_prepacked[i] && !library_calls_[i]->runs_by_rows(hints))
        return true;
    return false;
  };
  std::erase_if(parts_.regions, is_lost);
}

// The plan for the sizes seen while compiling, for describe().
void Executable::describe_memory() {
  const loopir::Program& p = parts_.program;
  std::vector<int64_t> hints;
  for (const loopir::Symbol& s : p.expressions.symbols) hints.push_back(s.hint);
  loopir::MemoryPlan plan =
      plan_of(parts_.options, p, steps_, loopir::bytes_of_arena(p, hints, in_arena_), in_arena_);
  if (parts_.options.verifies) loopir::require_sound(loopir::problem_of(p, steps_, plan, hints));
  Statistics& s = parts_.statistics;
  s.planned_bytes = plan.bytes;
  s.naive_bytes = plan.naive_bytes;
  s.lower_bound = plan.lower_bound;
  s.buffers_json = loopir::json_of(p, steps_, plan, hints);
  s.memory_text = loopir::text_of(p, steps_, plan, hints);
}

Executable::~Executable() {
  if (!times_ || is_told_) return;
  std::string table = profile_text();
  host->svc->log(TN_LOG_WARN, "profile", table.data(), table.size());
}

// ---- memory

// Where sizes change, buffers stay where they are as long as they have room there.
void Executable::place_arena(Context& context, std::span<const int64_t> symbols) {
  auto size_of = [&](uint32_t symbol) { return symbols[symbol]; };
  if (context.is_placed && std::ranges::equal(sized_by_, context.sizes, {}, size_of)) return;
  const loopir::Program& p = parts_.program;
  auto fits = [&](Id b) { return loopir::bytes_of(p, p.buffers[b], symbols) <= context.room[b]; };
  bool has_room = std::exchange(context.is_placed, false) && parts_.options.plans_memory &&
                  std::ranges::all_of(sized_in_arena_, fits);
  if (!has_room) lay_out(context, symbols);
  for (Context::OutputShape& o : context.outputs) {
    const Buffer& info = p.buffers[o.buffer];
    for (size_t d = 0; d < o.sizes.size(); ++d) {
      o.sizes[d] = p.expressions.evaluate(info.sizes[d], symbols);
      o.strides[d] = p.expressions.evaluate(info.strides[d], symbols);
    }
  }
  context.sizes.clear();
  for (uint32_t s : sized_by_) context.sizes.push_back(symbols[s]);
  context.is_placed = true;
}

// Sizes that have changed before get room to grow, so that few of them need another layout.
void Executable::lay_out(Context& context, std::span<const int64_t> symbols) {
  const loopir::Program& p = parts_.program;
  bool has_changed = !context.sizes.empty(), is_one_block = parts_.options.plans_memory;
  context.room = loopir::bytes_of_arena(p, symbols, in_arena_);
  if (has_changed && is_one_block)
    for (Id b : sized_in_arena_)
      context.room[b] = loopir::checked_add(context.room[b], context.room[b] / 4);
  loopir::MemoryPlan plan = plan_of(parts_.options, p, steps_, context.room, in_arena_);
  if (is_one_block && static_cast<int64_t>(context.arena.size()) < plan.bytes)
    context.arena = Memory(static_cast<size_t>(plan.bytes));
  context.blocks.clear();
  context.pointers.assign(p.buffers.size(), nullptr);
  context.tensors.resize(p.buffers.size());
  context.outputs.clear();
  for (Id b = 0; b < p.buffers.size(); ++b) {
    const Buffer& info = p.buffers[b];
    if (plan.offsets[b] >= 0 && is_one_block)
      context.pointers[b] = context.arena.data() + plan.offsets[b];
    if (plan.offsets[b] >= 0 && !is_one_block) {
      context.blocks.emplace_back(static_cast<size_t>(context.room[b]));
      context.pointers[b] = context.blocks.back().data();
    }
    size_t rank = info.sizes.size();
    if (info.place == Buffer::Place::constant) context.pointers[b] = p.constants[info.slot]->data;
    if (info.place == Buffer::Place::output)
      context.outputs.push_back(
          {b, info.dtype, std::vector<int64_t>(rank), std::vector<int64_t>(rank)});
  }
}

// What is prepacked for these versions: as it was last, or anew.
std::shared_ptr<Prepacked> Executable::prepacked_for(Call& call) {
  if (prepacked_ && prepacking_.is_of(*prepacked_, call.c.inputs)) return prepacked_;
  const loopir::Program& p = parts_.program;
  auto made = std::make_shared<Prepacked>();
  made->versions = prepacking_.versions_of(call.c.inputs);
  made->pointers.assign(p.buffers.size(), nullptr);
  made->tensors.resize(p.buffers.size());
  made->forms.resize(parts_.accesses.size());
  loopir::Access everything;  // all at the same time: nothing is overwritten
  for (Id b = 0; b < p.buffers.size(); ++b)
    if (in_prepacked_memory_[b]) everything.writes.push_back(b);
  loopir::MemoryPlan plan =
      loopir::plan_memory(p, {&everything, 1}, call.symbols, in_prepacked_memory_);
  made->memory = Memory(static_cast<size_t>(plan.bytes));
  for (Id b : everything.writes) made->pointers[b] = made->memory.data() + plan.offsets[b];
  call.prepacked = made;
  prepack_items(call);
  prepacked_ = made;
  std::lock_guard lock(guarding_pool_);
  newest_prepacked_ = made.get();
  for (const auto& idle : pool_) idle->packed = {};
  return made;
}

// What depends on parameters: its pointers in the context, and weights as they are packed.
void Executable::find_prepacked(Call& call) {
  if (!has_prepacked_) return;
  std::lock_guard lock(guarding_prepacked_);
  call.prepacked = prepacked_for(call);
  for (Id b : prepacked_buffers_) call.context.pointers[b] = call.prepacked->pointers[b];
  if (prepacking_.find(
          {call.prepacked, call.context.pointers, call.symbols, library_calls_, packs_},
          call.context.packed))
    packed_bytes_ = Prepacking::bytes_of(*call.prepacked);
}

// ---- tensors for the host

tensor Executable::tensor_of(Call& call, const View& view, bool in_whole_storage) {
  const Buffer& info = parts_.program.buffers[view.buffer];
  loopir::BufferMemory memory{nullptr, call.context.pointers[view.buffer]};
  if (info.place == Buffer::Place::input) memory.tensor = call.c.inputs[info.slot];
  if (info.place == Buffer::Place::constant)
    memory.tensor = parts_.program.constants[info.slot].get();
  if (call.context.tensors[view.buffer]) memory.tensor = call.context.tensors[view.buffer].get();
  if (!memory.tensor && call.prepacked) memory.tensor = call.prepacked->tensors[view.buffer].get();
  return loopir::tensor_of(parts_.program, view, call.symbols, memory, in_whole_storage, {});
}

// ---- the call

void Executable::Context::make_output(size_t output) {
  const OutputShape& o = outputs[output];
  tensors[o.buffer] = tensor::strided(o.sizes, o.strides, o.dtype);
  pointers[o.buffer] = tensors[o.buffer]->data;
  require_aligned(pointers[o.buffer]);
}

void Executable::give_outputs(Call& call) {
  const loopir::Program& p = parts_.program;
  for (uint32_t i = 0; i < p.outputs.size(); ++i) {
    const loopir::Output& o = p.outputs[i];
    if (o.kind == loopir::Output::Kind::absent) continue;
    tensor& made = call.context.tensors[o.view.buffer];
    if (o.kind != loopir::Output::Kind::buffer)
      call.c.outputs[i] = tensor_of(call, o.view).release();
    else
      call.c.outputs[i] =
          is_last_of_buffer_[i] ? made.release() : tensor::share(made.get()).release();
  }
}

std::string Executable::serialize() { return saved_form(parts_); }

void Executable::call(tn_call& c) {
  const bool is_given = (c.flags & TN_CALL_OUTPUTS_GIVEN) != 0;
  std::span<const int64_t> symbols(c.syms, c.n_syms);
  if (is_given && parts_.program.reals.empty()) return fill_outputs(c, symbols);
  Lease lease(*this);
  Context& context = *lease;
  symbols = loopir::table_of(parts_.program, symbols, context.table);
  if (is_given) return fill_outputs(c, symbols);
  Call call{c, context, nullptr, symbols};
  place_arena(context, call.symbols);
  for (auto [buffer, slot] : inputs_) context.pointers[buffer] = c.inputs[slot]->data;
  for (size_t output : lives_.begin_of_call()) context.make_output(output);
  find_prepacked(call);
  run_items(call);
  give_outputs(call);
}

}  // namespace inductor
