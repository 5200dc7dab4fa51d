// Calls: memory, what is prepacked, items, outputs.
#include "executable.h"

#include "saved_form.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace inductor {

using loopir::Buffer;
using loopir::Id;
using loopir::none;
using loopir::View;
using tenon::plugin::error;
using tenon::plugin::host;
using tenon::plugin::tensor;

namespace {

/// What an input of no elements points to: reads of masked lanes stay within it.
alignas(64) std::byte nothing[4096];

}  // namespace

void require_sound(const std::string& problem) {
  if (!problem.empty()) throw error(TN_INTERNAL, "verify: " + problem);
}

/// Memory and tables of one call at a time.
struct Executable::Context {
  struct OutputShape {
    Id buffer;
    int32_t dtype;
    std::vector<int64_t> sizes, strides;
  };
  std::vector<void*> pointers;  // by buffer
  Memory arena;
  std::vector<Memory> blocks;  // of single buffers, where nothing is planned
  std::vector<int64_t> symbols;
  bool is_placed = false;
  std::vector<OutputShape> outputs;  // for these symbols
  std::vector<tensor> tensors;       // by buffer: outputs and what externs made
};

/// What depends on parameters only.
struct Executable::Prepacked {
  std::vector<uint64_t> versions;
  std::vector<int64_t> symbols;
  Memory memory;
  std::vector<void*> pointers;  // by buffer; null where nothing is prepacked
  std::vector<tensor> tensors;  // by buffer
  std::vector<Memory> packed;   // by item
};

struct Executable::Call {
  tn_call& c;
  Context& context;
  std::shared_ptr<Prepacked> prepacked;
  std::span<const int64_t> symbols;
};

/// A context out of the pool, for one call.
class Executable::Lease {
 public:
  explicit Lease(Executable& owner) : owner_(owner) {
    std::lock_guard lock(owner.guarding_pool_);
    if (owner.pool_.empty()) {
      context_ = std::make_unique<Context>();
    } else {
      context_ = std::move(owner.pool_.back());
      owner.pool_.pop_back();
    }
  }
  ~Lease() {
    for (tensor& t : context_->tensors)
      if (t) t = tensor();
    std::lock_guard lock(owner_.guarding_pool_);
    owner_.pool_.push_back(std::move(context_));
  }
  Context& operator*() { return *context_; }

 private:
  Executable& owner_;
  std::unique_ptr<Context> context_;
};

Executable::Executable(Parts parts) : parts_(std::move(parts)) {
  size_t n = parts_.schedule.items.size();
  library_calls_.resize(n);
  packs_.assign(n, false);
  sort_buffers();
  for (size_t i = 0; i < n; ++i) prepare_item(i);
  for (Id b = 0; b < in_prepacked_memory_.size(); ++b)
    if (in_prepacked_memory_[b]) prepacked_buffers_.push_back(b);
  drop_regions();
  steps_ = steps_of(parts_.accesses, parts_.regions);
  describe_memory();
  if (parts_.options.profiles) times_ = std::make_unique<ItemTime[]>(n);
}

void Executable::sort_buffers() {
  const loopir::Program& p = parts_.program;
  is_static_.assign(p.buffers.size(), false);
  in_arena_.assign(p.buffers.size(), false);
  in_prepacked_memory_.assign(p.buffers.size(), false);
  for (Id b = 0; b < p.buffers.size(); ++b) {
    const Buffer& info = p.buffers[b];
    bool is_input = info.place == Buffer::Place::input;
    if (is_input) inputs_.emplace_back(b, info.slot);
    in_arena_[b] = info.place == Buffer::Place::temporary;
    is_static_[b] =
        info.place == Buffer::Place::constant || (is_input && p.is_static_input[info.slot]);
  }
}

// Prepacked data is made anew when one of these changes.
void Executable::watch(const loopir::Ids& buffers) {
  has_prepacked_ = true;
  for (Id b : buffers) {
    const Buffer& info = parts_.program.buffers[b];
    bool is_known = std::find(watched_.begin(), watched_.end(), info.slot) != watched_.end();
    if (info.place == Buffer::Place::input && !is_known) watched_.push_back(info.slot);
  }
}

void Executable::prepare_item(size_t i) {
  loopir::Program& p = parts_.program;
  loopir::Item& item = parts_.schedule.items[i];
  if (parts_.is_prepacked[i]) {
    const loopir::Access& access = parts_.accesses[i];
    watch(access.reads);
    for (Id b : access.writes) {
      is_static_[b] = true;
      in_prepacked_memory_[b] =
          in_prepacked_memory_[b] || in_arena_[b];  // it may have several writers
      in_arena_[b] = false;
    }
  }
  auto keep = [&](const auto& call, Id weights) {
    bool is_constant = is_static_[weights] && parts_.options.packs_weights;
    library_calls_[i] = prepare(p, call, is_constant, parts_.options.workers);
    packs_[i] = is_constant && !parts_.is_prepacked[i];
    if (is_constant) watch({weights});
  };
  if (auto* product = std::get_if<loopir::Product>(&item)) keep(*product, product->right.buffer);
  if (auto* c = std::get_if<loopir::Convolution>(&item)) keep(*c, c->weights.buffer);
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

loopir::MemoryPlan Executable::plan_for(std::span<const int64_t> symbols) const {
  return loopir::plan_memory(parts_.program, steps_, symbols, in_arena_,
                             parts_.options.reuses_memory && parts_.options.plans_memory);
}

// The plan for the sizes seen while compiling, for describe().
void Executable::describe_memory() {
  const loopir::Program& p = parts_.program;
  std::vector<int64_t> hints;
  for (const loopir::Symbol& s : p.expressions.symbols) hints.push_back(s.hint);
  loopir::MemoryPlan plan = plan_for(hints);
  if (parts_.options.verifies) require_sound(loopir::problem_of(p, steps_, plan, hints));
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

void Executable::place_arena(Context& context, std::span<const int64_t> symbols) {
  if (context.is_placed &&
      std::equal(symbols.begin(), symbols.end(), context.symbols.begin(), context.symbols.end()))
    return;
  const loopir::Program& p = parts_.program;
  loopir::MemoryPlan plan = plan_for(symbols);
  bool is_one_block = parts_.options.plans_memory;
  if (is_one_block && static_cast<int64_t>(context.arena.size()) < plan.bytes)
    context.arena = Memory(static_cast<size_t>(plan.bytes));
  context.blocks.clear();
  context.pointers.assign(p.buffers.size(), nullptr);
  context.tensors.resize(p.buffers.size());
  for (Id b = 0; b < p.buffers.size(); ++b) {
    const Buffer& info = p.buffers[b];
    if (plan.offsets[b] >= 0 && is_one_block)
      context.pointers[b] = context.arena.data() + plan.offsets[b];
    if (plan.offsets[b] >= 0 && !is_one_block) {
      context.blocks.emplace_back(static_cast<size_t>(loopir::bytes_of(p, info, symbols)));
      context.pointers[b] = context.blocks.back().data();
    }
    if (info.place == Buffer::Place::constant) context.pointers[b] = p.constants[info.slot]->data;
  }
  context.outputs.clear();
  for (Id b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].place == Buffer::Place::output)
      context.outputs.push_back({b, p.buffers[b].dtype, evaluated(p.buffers[b].sizes, symbols),
                                 evaluated(p.buffers[b].strides, symbols)});
  context.symbols.assign(symbols.begin(), symbols.end());
  context.is_placed = true;
}

std::vector<int64_t> Executable::evaluated(const loopir::Ids& ids,
                                           std::span<const int64_t> symbols) const {
  std::vector<int64_t> out;
  for (Id id : ids) out.push_back(parts_.program.expressions.evaluate(id, symbols));
  return out;
}

// What is prepacked for these versions: as it was last, or anew.
std::shared_ptr<Executable::Prepacked> Executable::prepacked_for(Call& call) {
  if (!has_prepacked_) return nullptr;
  std::lock_guard lock(guarding_prepacked_);
  auto same = [&](const Prepacked& s) {
    for (size_t i = 0; i < watched_.size(); ++i) {
      const tn_tensor* t = call.c.inputs[watched_[i]];
      const uint64_t* known = &s.versions[3 * i];
      if (known[0] != t->storage_id || known[1] != *t->version ||
          known[2] != reinterpret_cast<uint64_t>(t->data))
        return false;
    }
    return std::equal(call.symbols.begin(), call.symbols.end(), s.symbols.begin(), s.symbols.end());
  };
  if (prepacked_ && same(*prepacked_)) return prepacked_;
  const loopir::Program& p = parts_.program;
  auto made = std::make_shared<Prepacked>();
  for (uint32_t i : watched_) {
    const tn_tensor* t = call.c.inputs[i];
    made->versions.insert(made->versions.end(),
                          {t->storage_id, *t->version, reinterpret_cast<uint64_t>(t->data)});
  }
  made->symbols.assign(call.symbols.begin(), call.symbols.end());
  made->pointers.assign(p.buffers.size(), nullptr);
  made->tensors.resize(p.buffers.size());
  made->packed.resize(parts_.accesses.size());
  loopir::Access everything;  // all at the same time: nothing is overwritten
  for (Id b = 0; b < p.buffers.size(); ++b)
    if (in_prepacked_memory_[b]) everything.writes.push_back(b);
  loopir::MemoryPlan plan =
      loopir::plan_memory(p, {&everything, 1}, call.symbols, in_prepacked_memory_);
  made->memory = Memory(static_cast<size_t>(plan.bytes));
  for (Id b : everything.writes) made->pointers[b] = made->memory.data() + plan.offsets[b];
  call.prepacked = made;
  run_items(call, true);
  int64_t packed = 0;
  for (const Memory& m : made->packed) packed += static_cast<int64_t>(m.size());
  packed_bytes_ = packed;
  prepacked_ = made;
  return made;
}

// ---- tensors for the host

tensor Executable::tensor_of(Call& call, const View& view) {
  const Buffer& info = parts_.program.buffers[view.buffer];
  std::vector<int64_t> sizes = evaluated(view.sizes, call.symbols);
  std::vector<int64_t> strides = evaluated(view.strides, call.symbols);
  int64_t offset = parts_.program.expressions.evaluate(view.offset, call.symbols);
  tn_tensor* base = nullptr;
  if (info.place == Buffer::Place::input) base = call.c.inputs[info.slot];
  if (info.place == Buffer::Place::constant) base = parts_.program.constants[info.slot].get();
  if (call.context.tensors[view.buffer]) base = call.context.tensors[view.buffer].get();
  if (!base && call.prepacked && call.prepacked->tensors[view.buffer])
    base = call.prepacked->tensors[view.buffer].get();
  if (base) {
    bool is_same = offset == 0 && static_cast<int32_t>(sizes.size()) == base->ndim &&
                   std::equal(sizes.begin(), sizes.end(), base->sizes) &&
                   std::equal(strides.begin(), strides.end(), base->strides);
    if (is_same) return tensor::share(base);
    return tensor::share(base).as_strided(sizes, strides, base->storage_offset + offset);
  }
  auto* data = static_cast<std::byte*>(call.context.pointers[view.buffer]) +
               offset * loopir::item_size(info.dtype);
  tn_tensor* out = nullptr;
  tenon::plugin::check(host->tensor->from_memory(data, sizes.data(), strides.data(),
                                                 static_cast<int32_t>(sizes.size()), info.dtype,
                                                 TN_DEV_CPU, -1, nullptr, nullptr, &out));
  return tensor(out);
}

// ---- items

/// A kernel with the addresses of one call.
class Executable::KernelCall {
 public:
  KernelCall(const Executable& owner, const Call& call, size_t item)
      : kernel_(owner.parts_.kernels[item]),
        symbols_(call.symbols.data()),
        run_(owner.parts_.functions[item].run),
        name_(owner.kernel_name(item)) {
    size_t n = kernel_.buffers.size();
    if (n > most) many_.resize(n), pointers_ = many_.data();
    for (size_t i = 0; i < n; ++i) {
      void* p = call.context.pointers[kernel_.buffers[i]];
      pointers_[i] = p ? p : nothing;
    }
  }
  KernelCall(const KernelCall&) = delete;

  void operator()(int64_t begin, int64_t end) const {
    void* rows =
        kernel_.scratch_bytes ? thread_bytes(static_cast<size_t>(kernel_.scratch_bytes)) : nullptr;
    if (!run_(pointers_, symbols_, begin, end, rows)) return;
    throw error(TN_OUT_OF_RANGE,
                "index out of range in self: a position read by kernel " + name_ +
                    " is not within the tensor that it indexes; check the indices");
  }

 private:
  static constexpr size_t most = 64;
  const KernelInterface& kernel_;
  const int64_t* symbols_;
  KernelFunction run_;
  const std::string& name_;
  void* own_[most];
  std::vector<void*> many_;
  void** pointers_ = own_;
};

void Executable::run_kernel(Call& call, size_t item) {
  const KernelInterface& k = parts_.kernels[item];
  KernelCall run(*this, call, item);
  int64_t units = parts_.program.expressions.evaluate(k.units, call.symbols);
  // Of the default about 5 µs of work.
  constexpr double cost_of_element = 0.75;
  double worth_a_thread =
      cost_of_element * static_cast<double>(parts_.options.workers.fewest_elements);
  int64_t threads = parts_.options.workers.threads();
  double total = static_cast<double>(units) * k.cost;
  int64_t chunks = threads > 1 && total > worth_a_thread ? std::min(units, 4 * threads) : 1;
  if (chunks == 1) return run(0, units);
  parts_.options.workers.run(chunks,
                             [&](int64_t c) { run(units * c / chunks, units * (c + 1) / chunks); });
}

// Whether there are rows enough for chunks; else nothing is done.
bool Executable::run_region(Call& call, const Region& region) {
  int64_t rows = parts_.program.expressions.evaluate(region.rows, call.symbols);
  int64_t chunks = parts_.options.workers.row_chunks(rows);
  if (chunks == 0) return false;
  int64_t granules = (rows + region.granule - 1) / region.granule;
  auto run_chunk = [&](int64_t c) {
    int64_t begin = granules * c / chunks, end = granules * (c + 1) / chunks;
    int64_t row = begin * region.granule, row_end = std::min(end * region.granule, rows);
    if (row >= row_end) return;
    for (size_t i = region.first; i <= region.last; ++i) {
      if (parts_.is_prepacked[i]) continue;
      if (library_calls_[i]) {
        library_calls_[i]->run_rows(call.context.pointers, call.symbols,
                                    call.prepacked->packed[i].data(), row, row_end);
        continue;
      }
      int64_t step = region.units[i - region.first];
      int64_t units = parts_.program.expressions.evaluate(parts_.kernels[i].units, call.symbols);
      KernelCall(*this, call, i)(begin * step, row_end == rows ? units : end * step);
    }
  };
  parts_.options.workers.run(chunks, run_chunk);
  return true;
}

// Whether the tensor lies in the arena: an op that gave back its operand.
bool Executable::is_borrowed(const Call& call, const tn_tensor* t) const {
  auto* data = static_cast<const std::byte*>(t->data);
  auto has = [&](const Memory& m) {
    return m.data() && data >= m.data() && data < m.data() + m.size();
  };
  const std::vector<Memory>& blocks = call.context.blocks;
  return has(call.context.arena) || (call.prepacked && has(call.prepacked->memory)) ||
         std::any_of(blocks.begin(), blocks.end(), has);
}

void Executable::run_extern(Call& call, size_t item) {
  const ExternCall& e = parts_.externs.at(item);
  std::vector<tensor> results = e.run(parts_.program.expressions, call.symbols,
                                      [&](const View& view) { return tensor_of(call, view); });
  bool is_prepacked = parts_.is_prepacked[item];
  for (size_t r = 0; r < results.size(); ++r) {
    Id buffer = e.results()[r];
    if (buffer == none || !results[r]) continue;
    const Buffer& info = parts_.program.buffers[buffer];
    std::vector<int64_t> sizes = evaluated(info.sizes, call.symbols);
    std::vector<int64_t> strides = evaluated(info.strides, call.symbols);
    const tn_tensor* t = results[r].get();
    bool as_promised = static_cast<int32_t>(sizes.size()) == t->ndim;
    for (size_t d = 0; as_promised && d < sizes.size(); ++d)
      as_promised = t->sizes[d] == sizes[d] && (sizes[d] == 1 || t->strides[d] == strides[d]);
    // Memory of the arena must not leave the call, nor be read after it is used again.
    if (!as_promised || is_borrowed(call, t)) {
      tensor copy = tensor::strided(sizes, strides, info.dtype);
      copy.copy_from(t);
      results[r] = std::move(copy);
    }
    call.context.pointers[buffer] = results[r]->data;
    if (is_prepacked) call.prepacked->pointers[buffer] = results[r]->data;
    (is_prepacked ? call.prepacked->tensors : call.context.tensors)[buffer] = std::move(results[r]);
  }
}

void Executable::run_items(Call& call, bool prepacks) {
  auto region = parts_.regions.begin();
  for (size_t i = 0; i < parts_.accesses.size(); ++i) {
    bool packs = prepacks && packs_[i];
    if (prepacks)
      for (Id b : parts_.accesses[i].writes)
        if (parts_.is_prepacked[i]) call.context.pointers[b] = call.prepacked->pointers[b];
    if (packs)
      call.prepacked->packed[i] = library_calls_[i]->pack(call.context.pointers, call.symbols);
    if (parts_.is_prepacked[i] != prepacks) continue;
    bool begins = !prepacks && region != parts_.regions.end() && region->first == i;
    auto start =
        times_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    bool is_done = begins && run_region(call, *region);
    if (!is_done) run_item(call, i);
    if (times_) {
      times_[i].nanoseconds += (std::chrono::steady_clock::now() - start).count();
      ++times_[i].calls;
    }
    if (is_done) i = region->last;
    if (begins) ++region;
  }
}

void Executable::run_item(Call& call, size_t i) {
  if (library_calls_[i]) {
    const void* packed = call.prepacked && packs_[i] ? call.prepacked->packed[i].data() : nullptr;
    library_calls_[i]->run(call.context.pointers, call.symbols, packed);
  } else if (parts_.externs.contains(i)) {
    run_extern(call, i);
  } else {
    run_kernel(call, i);
  }
}

// ---- the call

void Executable::give_outputs(Call& call) {
  const loopir::Program& p = parts_.program;
  for (uint32_t i = 0; i < p.outputs.size(); ++i) {
    const loopir::Output& o = p.outputs[i];
    if (o.kind == loopir::Output::Kind::absent) continue;
    call.c.outputs[i] = o.kind == loopir::Output::Kind::buffer
                            ? tensor::share(call.context.tensors[o.view.buffer].get()).release()
                            : tensor_of(call, o.view).release();
  }
}

std::string Executable::serialize() { return saved_form(parts_); }

void Executable::call(tn_call& c) {
  Lease lease(*this);
  Context& context = *lease;
  Call call{c, context, nullptr, {c.syms, c.n_syms}};
  place_arena(context, call.symbols);
  for (auto [buffer, slot] : inputs_) context.pointers[buffer] = c.inputs[slot]->data;
  for (const Context::OutputShape& o : context.outputs) {
    context.tensors[o.buffer] = tensor::strided(o.sizes, o.strides, o.dtype);
    context.pointers[o.buffer] = context.tensors[o.buffer]->data;
    bool is_aligned = reinterpret_cast<uintptr_t>(context.pointers[o.buffer]) % 64 == 0;
    if (!is_aligned) throw error(TN_INTERNAL, "the host's memory for an output is not aligned");
  }
  call.prepacked = prepacked_for(call);
  if (call.prepacked)
    for (Id b : prepacked_buffers_) context.pointers[b] = call.prepacked->pointers[b];
  run_items(call, false);
  give_outputs(call);
}

}  // namespace inductor
