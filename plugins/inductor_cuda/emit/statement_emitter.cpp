// Folds, scans and stores.
#include "statement_emitter.h"

#include "memory.h"

#include <lanes/folds.h>
#include <lanes/lane_ops.h>

#include <algorithm>

namespace inductor_cuda {

using llvm::Value;
using loopir::Fold;
using loopir::Statement;
using loopir::Store;

void StatementEmitter::start(const loopir::Stage& stage) {
  for (const Statement& s : stage.statements) {
    if (s.fold == Fold::none) continue;
    State& state = states_[s.folded];
    int32_t dtype = x_.dtype_of(s.value);
    state.type = lanes::lane_type(b_.getContext(), dtype);
    state.value = f_.variable(state.type);
    b_.CreateStore(lanes::neutral(s.fold, state.type, dtype), state.value);
    if (!lanes::gives_position(s.fold)) continue;
    state.position = f_.variable(b_.getInt64Ty());
    b_.CreateStore(b_.getInt64(~uint64_t{0}), state.position);  // after every element
  }
}

Part StatementEmitter::part_of(const Statement& s) {
  const State& state = states_.at(s.folded);
  Part out{b_.CreateLoad(state.type, state.value), nullptr};
  if (state.position) out.position = b_.CreateLoad(b_.getInt64Ty(), state.position);
  return out;
}

void StatementEmitter::run(const Statement& s, Value* guard) {
  if (s.is_scan && f_.plan.form.kind == Form::Kind::rows)
    scan_together(s, guard);
  else if (s.is_scan)
    emit_where(f_, values_, guard, [&] { scan(s); });
  else if (s.fold != Fold::none)
    fold(s, guard);
  else
    store_lanes(s, values_of(s), guard);
}

namespace {

bool is_plain(const Statement& s) {
  return s.fold == Fold::none && !s.is_scatter && s.store == Store::set && s.buffer != none;
}

}  // namespace

// Values of one go at once, in registers.
void StatementEmitter::run_all(std::span<const Statement> all, Value* guard) {
  constexpr size_t most_values = 64;
  size_t most = std::max<size_t>(most_values / values_.lanes(), 1);
  while (!all.empty()) {
    loopir::Ids written, read;
    size_t n = 0;
    for (; n < std::min(most, all.size()) && is_plain(all[n]); ++n) {
      read.clear();
      loopir::add_loads(x_, all[n].value, read);
      loopir::add_index_loads(x_, all[n].index, read);
      if (std::ranges::any_of(read,
                              [&](Id b) { return std::ranges::find(written, b) != written.end(); }))
        break;
      written.push_back(all[n].buffer);
    }
    n = std::max<size_t>(n, 1);
    if (n > 1)
      for (const Statement& s : all.first(n)) prepare(s);
    for (const Statement& s : all.first(n)) run(s, guard);
    all = all.subspan(n);
  }
}

std::vector<Value*> StatementEmitter::values_of(const Statement& s) {
  std::vector<Value*> out;
  for (unsigned lane = 0; lane < values_.lanes(); ++lane)
    out.push_back(values_.value(s.value, lane));
  return out;
}

void StatementEmitter::fold(const Statement& s, Value* guard) {
  const State& state = states_.at(s.folded);
  for (unsigned lane = 0; lane < values_.lanes(); ++lane) {
    Part element{values_.value(s.value, lane), nullptr};
    if (state.position)
      element.position = b_.CreateSExt(values_.index(s.position, lane), b_.getInt64Ty());
    Part before = part_of(s);
    Part after = combined(f_, s, before, element);
    if (guard) {
      after.value = b_.CreateSelect(guard, after.value, before.value);
      if (after.position) after.position = b_.CreateSelect(guard, after.position, before.position);
    }
    b_.CreateStore(after.value, state.value);
    if (after.position) b_.CreateStore(after.position, state.position);
  }
}

// In the order of the points, one thread.
void StatementEmitter::scan(const Statement& s) {
  const State& state = states_.at(s.folded);
  Value* sum =
      lanes::combined(b_, s.fold, x_.dtype_of(s.value), part_of(s).value, values_.value(s.value));
  b_.CreateStore(sum, state.value);
  if (s.buffer != none) store_one(s, values_.index(s.index), sum);
}

// A thread scans its own neighbours, then all threads what each of them has.
void StatementEmitter::scan_together(const Statement& s, Value* guard) {
  const State& state = states_.at(s.folded);
  int32_t dtype = x_.dtype_of(s.value);
  auto join = [&](Value* p, Value* q) { return lanes::combined(b_, s.fold, dtype, p, q); };
  std::vector<Value*> all = values_of(s);
  for (size_t lane = 1; lane < all.size(); ++lane) all[lane] = join(all[lane - 1], all[lane]);
  Value* own = all.back();
  if (guard) own = b_.CreateSelect(guard, own, lanes::neutral(s.fold, state.type, dtype));
  Scanned scanned = scanned_over_block(f_, s, own);
  Value* carried = b_.CreateLoad(state.type, state.value);
  Value* before = join(carried, scanned.before);
  b_.CreateStore(join(carried, scanned.all), state.value);
  if (s.buffer == none) return;
  for (Value*& v : all) v = join(before, v);
  store_lanes(s, all, guard);
}

void StatementEmitter::finish(const loopir::Stage& stage, const Over& over, Value* stores) {
  for (const Statement& s : stage.statements) {
    if (s.fold == Fold::none) continue;
    Part whole = part_of(s);
    if (over && !s.is_scan) whole = over(f_, s, whole);
    Value* result = whole.position ? whole.position : whole.value;
    values_.set_folded(s.folded, result);
    if (s.buffer == none || s.is_scan) continue;
    emit_where(f_, values_, stores, [&] { store_one(s, values_.index(s.index), result); });
  }
}

void StatementEmitter::store_one(const Statement& s, Value* element, Value* v) {
  if (f_.plan.is_atomic) return change(f_, s.buffer, element, v, s.store);
  if (s.store != Store::set) {
    int32_t computed = x_.dtype_of(s.value);
    uint16_t code = s.store == Store::add        ? TN_F_ADD
                    : s.store == Store::multiply ? TN_F_MUL
                    : s.store == Store::minimum  ? TN_F_MIN
                                                 : TN_F_MAX;
    Value* before = load(f_, s.buffer, element, 1, nullptr)[0];
    v = lanes::emit_primitive(b_, code, computed, computed, before, v, nullptr);
  }
  store(f_, s.buffer, element, {&v, 1});
}

void StatementEmitter::store_lanes(const Statement& s, std::span<Value* const> all, Value* guard) {
  auto count = static_cast<unsigned>(all.size());
  bool is_scratch = f_.program.buffers[s.buffer].place == loopir::Buffer::Place::scratch;
  if (keeps_rows_ && is_scratch) {
    for (unsigned lane = 0; lane < count; ++lane) values_.keep(s.buffer, lane, all[lane]);
    return;
  }
  emit_where(f_, values_, guard, [&] {
    bool is_together = s.store == Store::set || f_.plan.is_atomic;
    unsigned together = is_together ? values_.width_of(s.buffer, s.index) : 1;
    for (unsigned lane = 0; lane < count; lane += together) {
      Value* element = values_.index(s.index, lane);
      if (together == 1)
        store_one(s, element, all[lane]);
      else if (f_.plan.is_atomic)
        add_to(f_, s.buffer, element, all.subspan(lane, together));
      else
        store(f_, s.buffer, element, all.subspan(lane, together));
    }
  });
}

}  // namespace inductor_cuda
