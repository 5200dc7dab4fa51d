// The forms: who takes which points.
#include "kernel_emitter.h"

#include "inductor_cuda/accesses.h"
#include "statement_emitter.h"

#include <lanes/lane_ops.h>

#include <algorithm>
#include <set>

namespace inductor_cuda {

using llvm::Value;
using loopir::Stage;
using loopir::Statement;

namespace {

bool has_scan(const Stage& stage) {
  return std::ranges::any_of(stage.statements, [](const Statement& s) { return s.is_scan; });
}

class KernelEmitter {
 public:
  explicit KernelEmitter(Frame& frame)
      : f_(frame),
        b_(frame.b),
        x_(frame.program.expressions),
        nest_(frame.plan.nest),
        form_(frame.plan.form),
        values_(frame),
        statements_(frame, values_) {}

  void points();
  void rows();
  void columns();
  void tiles();

 private:
  using Body = std::function<void()>;
  Value* thread() { return b_.CreateZExtOrTrunc(f_.target.thread(b_), f_.index_type()); }
  Value* block() {
    Value* own = f_.target.block(b_);
    if (f_.first_block) own = b_.CreateSub(own, f_.first_block);
    return b_.CreateZExtOrTrunc(own, f_.index_type());
  }
  /// The variables as a number of their points in order, the last one fastest; what is left of it.
  void bind_points(const Ids& variables, Value* number);
  Value* take(Value*& number, Value* extent);
  Ids outer_but_lanes() const;
  void set_unit(Value* unit);
  void statements_apart(Value* unit);
  void choose_buffers(const AlikeStatements& alike, std::span<Value* const> is_own,
                      std::map<Id, Value*>& among);
  void serial_stages();
  bool is_window(const Ids& inner, size_t next);
  void serial_points(const Ids& inner, size_t next, const Stage& stage);
  void vector_of_points(Value* first);
  void shared_stages(Value* rank, Value* ranks, const StatementEmitter::Over& over, Value* stores,
                     Value* guard);
  void shared_points(const Stage& stage, Id lanes, Value* rank, Value* ranks, Value* guard);
  void stages_in_registers();
  void points_in_registers(const Stage& stage, Value* rank);
  template <class F>
  void vectors_in_registers(const Stage& stage, Value* rank, F&& body);
  bool is_read_later(size_t stage);
  /// A point of the tile at (first_across, first_lane), and whether there is one.
  struct Point {
    Value *across, *lane, *is_there;
  };
  Point point(const Point& first, Value* row, Value* column, bool is_turned);
  void bind(const Point& p);
  void fill_tile(size_t tile, const Point& first, Value* row, Value* column);
  Value* in_tile(size_t tile, Value* row, Value* column);

  Frame& f_;
  llvm::IRBuilder<>& b_;
  loopir::Expressions& x_;
  const loopir::Nest& nest_;
  const Form& form_;
  ValueEmitter values_;
  StatementEmitter statements_;
  std::vector<ValueEmitter::Known> known_;  // by vector of a row in registers
};

Ids KernelEmitter::outer_but_lanes() const {
  Ids out = nest_.kernel.outer;
  std::erase(out, nest_.lanes);
  return out;
}

// The last digit of a number.
Value* KernelEmitter::take(Value*& number, Value* extent) {
  Value* digit = b_.CreateURem(number, extent);
  number = b_.CreateUDiv(number, extent);
  return digit;
}

void KernelEmitter::bind_points(const Ids& variables, Value* number) {
  for (size_t i = variables.size(); i-- > 0;) {
    Value* digit = i == 0 ? number : take(number, values_.index(x_.extent_of(variables[i])));
    values_.bind(variables[i], digit);
  }
}

// Where rows of the kernel's own lie in global memory.
void KernelEmitter::set_unit(Value* unit) {
  if (!f_.plan.has_global_scratch()) return;
  f_.unit = unit;
  f_.units = values_.index(f_.plan.units);
  Value* units = b_.CreateSExt(f_.units, b_.getInt64Ty());
  for (const auto& [buffer, offset] : f_.plan.scratch)
    f_.buffers[buffer] =
        b_.CreateGEP(b_.getInt8Ty(), f_.scratch,
                     b_.CreateMul(units, b_.getInt64(static_cast<uint64_t>(offset))));
}

// ---- points

void KernelEmitter::points() {
  Value* unit = b_.CreateAdd(b_.CreateMul(block(), f_.number(form_.threads)), thread());
  Value* units =
      f_.n_units ? b_.CreateZExtOrTrunc(f_.n_units, f_.index_type()) : values_.index(f_.plan.units);
  emit_where(f_, values_, b_.CreateICmpSLT(unit, units), [&] {
    if (f_.plan.apart) return statements_apart(unit);
    set_unit(unit);
    if (nest_.lanes == none) {
      bind_points(outer_but_lanes(), unit);
      return serial_stages();
    }
    Value* extent = values_.index(x_.extent_of(nest_.lanes));
    Value* last = b_.CreateAdd(extent, f_.number(int64_t{form_.vector} - 1));
    Value* vectors = b_.CreateUDiv(last, f_.number(form_.vector));
    bool is_all = nest_.kernel.outer.size() == 1;
    Value* vector = is_all ? unit : take(unit, vectors);
    bind_points(outer_but_lanes(), unit);
    vector_of_points(b_.CreateMul(vector, f_.number(form_.vector)));
  });
}

// Those that are alike have their code in common, and choose their buffers by the number of the warp.
void KernelEmitter::statements_apart(Value* unit) {
  for (const AlikeStatements& alike : alike_statements(f_.program, nest_)) {
    std::vector<Value*> is_own;
    for (size_t n : alike.numbers) {
      auto first = static_cast<int64_t>(n * threads_of_warp);
      is_own.push_back(b_.CreateICmpEQ(unit, f_.number(first)));
    }
    emit_where(f_, values_, b_.CreateOr(is_own), [&] {
      auto buffers = f_.buffers, host_numbers = f_.host_numbers;
      for (auto* list : {&f_.buffers, &f_.host_numbers}) choose_buffers(alike, is_own, *list);
      statements_.run(nest_.kernel.stages[0].statements[alike.numbers[0]], nullptr);
      f_.buffers = std::move(buffers), f_.host_numbers = std::move(host_numbers);
    });
  }
}

/// Under the first one's names.
void KernelEmitter::choose_buffers(const AlikeStatements& alike, std::span<Value* const> is_own,
                                   std::map<Id, Value*>& among) {
  const std::map<Id, Value*> all = among;
  for (size_t k = 0; k < alike.buffers[0].size(); ++k) {
    auto at = all.find(alike.buffers[0][k]);
    if (at == all.end()) continue;
    Value* out = at->second;
    for (size_t i = 1; i < is_own.size(); ++i)
      out = b_.CreateSelect(is_own[i], all.at(alike.buffers[i][k]), out);
    among[at->first] = out;
  }
}

// Full vectors, and the elements of the last one that is not.
void KernelEmitter::vector_of_points(Value* first) {
  values_.bind(nest_.lanes, first);
  if (form_.vector == 1) return serial_stages();
  Id extent = x_.extent_of(nest_.lanes);
  auto full = [&] {
    values_.set_lanes(nest_.lanes, form_.vector);
    serial_stages();
    values_.set_lanes(none, 1);
  };
  auto known = x_.number_of(extent);
  if (known && *known % form_.vector == 0) return full();
  Value* n = values_.index(extent);
  Value* is_full = b_.CreateICmpSLE(b_.CreateAdd(first, f_.number(form_.vector)), n);
  emit_where(f_, values_, is_full, full);
  emit_where(f_, values_, b_.CreateNot(is_full), [&] {
    emit_loop(f_, first, n, f_.number(1), [&](Value* i) {
      values_.open();
      values_.bind(nest_.lanes, i);
      serial_stages();
      values_.close();
    });
  });
}

void KernelEmitter::serial_stages() {
  for (const Stage& stage : nest_.kernel.stages) {
    statements_.start(stage);
    serial_points(stage.inner, 0, stage);
    statements_.finish(stage, nullptr, nullptr);
  }
}

/// Whether the variables from the `next` one on have few points together.
bool KernelEmitter::is_window(const Ids& inner, size_t next) {
  constexpr int64_t most = 16;
  int64_t n = 1;
  for (; next < inner.size(); ++next) {
    auto known = x_.number_of(x_.extent_of(inner[next]));
    if (!known || *known > most) return false;
    n *= *known;
  }
  return n <= most;
}

void KernelEmitter::serial_points(const Ids& inner, size_t next, const Stage& stage) {
  if (next == inner.size()) return statements_.run_all(stage.statements, nullptr);
  // The loads of a small window are on their way at the same time.
  if (is_window(inner, next)) {
    for (int64_t i = 0; i < *x_.number_of(x_.extent_of(inner[next])); ++i) {
      values_.open();
      values_.bind(inner[next], f_.number(i));
      serial_points(inner, next + 1, stage);
      values_.close();
    }
    return;
  }
  Value* n = values_.index(x_.extent_of(inner[next]));
  emit_loop(f_, f_.number(0), n, f_.number(1), [&](Value* i) {
    values_.open();
    values_.bind(inner[next], i);
    serial_points(inner, next + 1, stage);
    values_.close();
  });
}

// ---- points that are shared by threads

// Whether a later stage reads what this one stores, which other threads may have stored.
bool KernelEmitter::is_read_later(size_t stage) {
  std::set<Id> written;
  for (const Statement& s : nest_.kernel.stages[stage].statements)
    if (s.buffer != none) written.insert(s.buffer);
  Ids read;
  for (size_t i = stage + 1; i < nest_.kernel.stages.size(); ++i)
    for (const Statement& s : nest_.kernel.stages[i].statements) {
      loopir::add_loads(x_, s.value, read);
      if (s.index != none) loopir::add_index_loads(x_, s.index, read);
    }
  return std::any_of(read.begin(), read.end(), [&](Id b) { return written.contains(b); });
}

void KernelEmitter::shared_stages(Value* rank, Value* ranks, const StatementEmitter::Over& over,
                                  Value* stores, Value* guard) {
  for (size_t i = 0; i < nest_.kernel.stages.size(); ++i) {
    const Stage& stage = nest_.kernel.stages[i];
    statements_.start(stage);
    if (stage.inner.empty())
      statements_.run_all(stage.statements, stores);
    else
      shared_points(stage, nest_.lanes_of_stage[i], rank, ranks, guard);
    statements_.finish(stage, over, stores);
    if (is_read_later(i)) f_.target.barrier(b_);
  }
}

void KernelEmitter::shared_points(const Stage& stage, Id lanes, Value* rank, Value* ranks,
                                  Value* guard) {
  Ids others = stage.inner;
  std::erase(others, lanes);
  unsigned vector = lanes == none ? 1 : form_.vector;
  Value* vectors = nullptr;
  Value* total = f_.number(1);
  for (Id v : others) total = b_.CreateMul(total, values_.index(x_.extent_of(v)));
  if (lanes != none) {
    vectors = b_.CreateUDiv(values_.index(x_.extent_of(lanes)), f_.number(vector));
    total = b_.CreateMul(total, vectors);
  }
  auto run = [&](Value* number) {
    Value* point = b_.CreateAdd(rank, b_.CreateMul(number, ranks));
    values_.open();
    if (lanes != none) {
      Value* digit = others.empty() ? point : take(point, vectors);
      values_.bind(lanes, b_.CreateMul(digit, f_.number(vector)));
    }
    bind_points(others, point);
    values_.set_lanes(lanes, vector);
    for (const Statement& s : stage.statements) statements_.run(s, values_.guard());
    values_.set_lanes(none, 1);
    values_.close();
  };
  // Who has nothing to do has no points.
  if (guard) total = b_.CreateSelect(guard, total, f_.number(0));
  values_.set_guard(nullptr);
  // Of points rank, rank + ranks, ... four at a time, so that their loads do not wait for each other.
  Value* behind = b_.CreateAdd(b_.CreateSub(total, rank), b_.CreateSub(ranks, f_.number(1)));
  Value* count = b_.CreateSDiv(behind, ranks);
  if (has_scan(stage)) {  // as many points for each thread, of which the last one may not be there
    Value* most = b_.CreateSDiv(b_.CreateAdd(total, b_.CreateSub(ranks, f_.number(1))), ranks);
    emit_loop(f_, f_.number(0), most, f_.number(1), [&](Value* number) {
      values_.set_guard(b_.CreateICmpSLT(number, count));
      run(number);
    });
    return values_.set_guard(guard);
  }
  constexpr int64_t together = 4;
  Value* full = b_.CreateMul(b_.CreateSDiv(count, f_.number(together)), f_.number(together));
  emit_loop(f_, f_.number(0), full, f_.number(together), [&](Value* first) {
    for (int64_t i = 0; i < together; ++i) run(b_.CreateAdd(first, f_.number(i)));
  });
  emit_loop(f_, full, count, f_.number(1), run);
  values_.set_guard(guard);
}

void KernelEmitter::rows() {
  bind_points(nest_.kernel.outer, block());
  set_unit(block());
  if (form_.in_registers) return stages_in_registers();
  Value* rank = thread();
  Value* is_first = b_.CreateICmpEQ(rank, f_.number(0));
  shared_stages(rank, f_.number(form_.threads), folded_over_block, is_first, nullptr);
}

// Each thread has the same vectors of the row in all stages, so that what one stage has loaded or
// made another finds in registers.
void KernelEmitter::stages_in_registers() {
  known_.resize(form_.in_registers);
  statements_.keep_rows();
  Value* rank = thread();
  Value* is_first = b_.CreateICmpEQ(rank, f_.number(0));
  for (size_t i = 0; i < nest_.kernel.stages.size(); ++i) {
    const Stage& stage = nest_.kernel.stages[i];
    statements_.start(stage);
    if (stage.inner.empty())
      statements_.run_all(stage.statements, is_first);
    else
      points_in_registers(stage, rank);
    statements_.finish(stage, folded_over_block, is_first);
  }
}

// Vectors behind the end of the row stand for its first one, and are neither read, folded nor stored.
void KernelEmitter::points_in_registers(const Stage& stage, Value* rank) {
  // A scan is all threads' and waits for them: all loads are on their way before the first one.
  if (has_scan(stage))
    vectors_in_registers(stage, rank, [&](const Statement& s, Value*) { statements_.prepare(s); });
  vectors_in_registers(stage, rank,
                       [&](const Statement& s, Value* guard) { statements_.run(s, guard); });
}

template <class F>
void KernelEmitter::vectors_in_registers(const Stage& stage, Value* rank, F&& body) {
  Id row = stage.inner[0];
  auto n = x_.number_of(x_.extent_of(row));
  Value* extent = values_.index(x_.extent_of(row));
  int64_t together = int64_t{form_.threads} * form_.vector;
  for (unsigned e = 0; e < form_.in_registers; ++e) {
    Value* first = b_.CreateMul(b_.CreateAdd(rank, f_.number(int64_t{e} * form_.threads)),
                                f_.number(form_.vector));
    Value* guard = nullptr;
    if (!n || (e + 1) * together > *n) {
      guard = b_.CreateICmpSLT(first, extent);
      first = b_.CreateSelect(guard, first, f_.number(0));
    }
    values_.open(std::move(known_[e]));
    values_.bind(row, first);
    values_.set_lanes(row, form_.vector);
    values_.set_guard(guard);
    for (const Statement& s : stage.statements) body(s, guard);
    values_.set_guard(nullptr);
    values_.set_lanes(none, 1);
    known_[e] = values_.take();
  }
}

// Threads of columns behind the last one stand at the first, and read and store nothing.
void KernelEmitter::columns() {
  Value* number = thread();
  Value* column = take(number, f_.number(columns_of_block));
  Value* rank = number;
  Value* extent = values_.index(x_.extent_of(nest_.lanes));
  Value* last = b_.CreateAdd(extent, f_.number(int64_t{columns_of_block} - 1));
  Value* groups = b_.CreateUDiv(last, f_.number(columns_of_block));
  Value* unit = block();
  bool is_all = nest_.kernel.outer.size() == 1;
  Value* group = is_all ? unit : take(unit, groups);
  bind_points(outer_but_lanes(), unit);
  Value* lane = b_.CreateAdd(b_.CreateMul(group, f_.number(columns_of_block)), column);
  Value* is_there = b_.CreateICmpSLT(lane, extent);
  lane = b_.CreateSelect(is_there, lane, f_.number(0));
  values_.bind(nest_.lanes, lane);
  values_.set_guard(is_there);
  set_unit(is_all ? lane : b_.CreateAdd(b_.CreateMul(unit, extent), lane));
  Value* stores = b_.CreateAnd(is_there, b_.CreateICmpEQ(rank, f_.number(0)));
  shared_stages(rank, f_.number(form_.threads / columns_of_block), folded_over_column, stores,
                is_there);
}

// ---- tiles

// Rows of a tile are neighbours over lanes; turned, they are so over the other variable.
KernelEmitter::Point KernelEmitter::point(const Point& first, Value* row, Value* column,
                                          bool is_turned) {
  Point out{b_.CreateAdd(first.across, is_turned ? column : row),
            b_.CreateAdd(first.lane, is_turned ? row : column), nullptr};
  Value* across = values_.index(x_.extent_of(f_.plan.across));
  Value* lanes = values_.index(x_.extent_of(nest_.lanes));
  out.is_there =
      b_.CreateAnd(b_.CreateICmpSLT(out.across, across), b_.CreateICmpSLT(out.lane, lanes));
  return out;
}

void KernelEmitter::bind(const Point& p) {
  values_.bind(f_.plan.across, p.across);
  values_.bind(nest_.lanes, p.lane);
}

// Where the element that is loaded at (row, column) of the turned tile lies.
Value* KernelEmitter::in_tile(size_t tile, Value* row, Value* column) {
  int64_t begin = static_cast<int64_t>(tile) * side_of_tile * pitch_of_tile;
  Value* element = b_.CreateAdd(b_.CreateMul(row, f_.number(pitch_of_tile)), column);
  element = b_.CreateAdd(element, f_.number(begin));
  return b_.CreateGEP(b_.getInt8Ty(), f_.folds,
                      b_.CreateMul(element, f_.number(f_.plan.tile_item)));
}

// All loads of a thread are on their way before the first one is waited for.
void KernelEmitter::fill_tile(size_t tile, const Point& first, Value* row, Value* column) {
  std::vector<Value*> loaded, rows;
  for (unsigned k = 0; k < side_of_tile; k += rows_at_once) {
    rows.push_back(b_.CreateAdd(row, f_.number(k)));
    Point p = point(first, rows.back(), column, true);
    values_.open();
    bind(p);
    values_.set_guard(p.is_there);
    loaded.push_back(values_.value(f_.plan.crossed[tile]));
    values_.set_guard(nullptr);
    values_.close();
  }
  for (size_t i = 0; i < loaded.size(); ++i)
    put_element(f_, in_tile(tile, rows[i], column), loaded[i]);
}

// A tile is read along one side, and stored along the other.
void KernelEmitter::tiles() {
  Value* row = thread();
  Value* column = take(row, f_.number(side_of_tile));
  Value* unit = block();
  auto tiles_of = [&](Id v) {
    Value* last = b_.CreateAdd(values_.index(x_.extent_of(v)), f_.number(side_of_tile - 1));
    return b_.CreateUDiv(last, f_.number(side_of_tile));
  };
  Value* lane = b_.CreateMul(take(unit, tiles_of(nest_.lanes)), f_.number(side_of_tile));
  Value* across = b_.CreateMul(take(unit, tiles_of(f_.plan.across)), f_.number(side_of_tile));
  Point first{across, lane, nullptr};
  Ids others = outer_but_lanes();
  std::erase(others, f_.plan.across);
  bind_points(others, unit);
  for (size_t tile = 0; tile < f_.plan.crossed.size(); ++tile) fill_tile(tile, first, row, column);
  f_.target.barrier(b_);
  for (unsigned k = 0; k < side_of_tile; k += rows_at_once) {
    Value* own = b_.CreateAdd(row, f_.number(k));
    Point p = point(first, own, column, false);
    emit_where(f_, values_, p.is_there, [&] {
      bind(p);
      for (size_t tile = 0; tile < f_.plan.crossed.size(); ++tile) {
        Id load = f_.plan.crossed[tile];
        llvm::Type* type = lanes::lane_type(b_.getContext(), x_.dtype_of(load));
        values_.set(load, get_element(f_, in_tile(tile, column, own), type));
      }
      serial_stages();
    });
  }
}

}  // namespace

void emit_body(Frame& frame) {
  KernelEmitter emitter(frame);
  switch (frame.plan.form.kind) {
    case Form::Kind::points:
      return emitter.points();
    case Form::Kind::rows:
      return emitter.rows();
    case Form::Kind::columns:
      return emitter.columns();
    case Form::Kind::tiles:
      return emitter.tiles();
  }
}

}  // namespace inductor_cuda
