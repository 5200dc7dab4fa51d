// The steps of recurrent layers, on the threads of the host.
//
// Problem: a step is a product of few rows that depends on the step before.
//
// Method: threads share the units of each step, so that each reads a part of the weights only, out
// of its own cache, and wait for each other between steps. Directions, and rows of the batch, are
// independent through all steps: threads take those where there are directions for all, or rows
// enough and weights that are small, and nothing waits for anything.
#include "inductor_runtime/lockstep.h"
#include "library_calls.h"
#include "placed.h"

#include <microkernel/recurrent.h>

#include <algorithm>

namespace inductor {

using loopir::Program;
using loopir::Recurrence;
using loopir::RecurrentDirection;

namespace {

using microkernel::RecurrentStep;
using microkernel::RecurrentWeights;

constexpr int64_t rows_worth_a_thread = 4;  // fewer leave multipliers idle
constexpr int64_t small_step = 1 << 13;     // multiplications; not worth sharing
constexpr int64_t small_layer = 1 << 18;    // of all steps; over before another thread is awake
constexpr int64_t near_bytes = 256 << 10;   // stay in a second-level cache beside all else

std::vector<uint32_t> symbols_of_all(const Program& p, const Recurrence& r) {
  std::set<uint32_t> out;
  for (const RecurrentDirection& d : r.directions) {
    auto add = [&](const loopir::View* v) {
      for (uint32_t s : symbols_of(p, {v})) out.insert(s);
    };
    for (const loopir::View* v : {&d.input, &d.weights, &d.state, &d.last_state, &d.result}) add(v);
    for (const auto* v : {&d.bias, &d.cell, &d.last_cell})
      if (*v) add(&**v);
  }
  return {out.begin(), out.end()};
}

/// A direction with numbers for its sizes.
struct PlacedDirection {
  Placed input, weights, state, last_state, result;
  std::optional<Placed> bias, cell, last_cell;
  bool is_backward;

  PlacedDirection(const Program& p, const RecurrentDirection& d, std::span<const int64_t> symbols)
      : input(p, d.input, symbols),
        weights(p, d.weights, symbols),
        state(p, d.state, symbols),
        last_state(p, d.last_state, symbols),
        result(p, d.result, symbols),
        is_backward(d.is_backward) {
    if (d.bias) bias.emplace(p, *d.bias, symbols);
    if (d.cell) cell.emplace(p, *d.cell, symbols);
    if (d.last_cell) last_cell.emplace(p, *d.last_cell, symbols);
  }
  int64_t steps() const { return result.sizes[0]; }
  int64_t batch() const { return result.sizes[1]; }
  int64_t size() const { return result.sizes[2]; }

  /// The i-th step in the order in which they run.
  RecurrentStep step(std::span<void* const> pointers, int64_t i) const {
    int64_t at = is_backward ? steps() - 1 - i : i, before = is_backward ? at + 1 : at - 1;
    float* states = result.data(pointers);
    RecurrentStep s{};
    s.input = input.data(pointers) + at * input.strides[0], s.input_row = input.strides[1];
    if (bias) s.bias = bias->data(pointers);
    s.state = i ? states + before * result.strides[0] : state.data(pointers);
    s.state_row = i ? result.strides[1] : state.strides[0];
    s.next_state = states + at * result.strides[0], s.next_state_row = result.strides[1];
    if (!cell) return s;
    const Placed& from = i ? *last_cell : *cell;
    s.cell = from.data(pointers), s.cell_row = from.strides[0];
    s.next_cell = last_cell->data(pointers), s.next_cell_row = last_cell->strides[0];
    return s;
  }

  /// The state behind the last step, where it is asked for.
  void finish(std::span<void* const> pointers, int64_t row, int64_t row_end) const {
    auto copy = [&](const float* from, int64_t from_row, const Placed& to) {
      for (int64_t r = row; r < row_end; ++r)
        std::copy_n(from + r * from_row, size(), to.data(pointers) + r * to.strides[0]);
    };
    if (steps() == 0) {
      copy(state.data(pointers), state.strides[0], last_state);
      if (cell) copy(cell->data(pointers), cell->strides[0], *last_cell);
      return;
    }
    int64_t last = is_backward ? 0 : steps() - 1;
    copy(result.data(pointers) + last * result.strides[0], result.strides[1], last_state);
  }
};

class RecurrenceCall final : public LibraryCall {
 public:
  RecurrenceCall(const Program& p, const Recurrence& r, bool constant, const Workers& workers)
      : program_(p),
        recurrence_(r),
        constant_(constant),
        workers_(workers),
        plans_(symbols_of_all(p, r)) {}

  Memory pack(std::span<void* const> pointers, std::span<const int64_t> symbols) const override {
    return constant_ ? packed(*plan_for(symbols), pointers) : Memory();
  }
  uint64_t packing(std::span<const int64_t> symbols) const override {
    return plan_for(symbols)->weights.form();
  }
  bool is_fast(std::span<const int64_t>) const override { return true; }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void* packed_weights) const override {
    auto kept = plan_for(symbols);
    const Plan& plan = *kept;
    if (plan.directions[0].batch() == 0 || plan.directions[0].size() == 0) return;
    Memory own;
    if (!packed_weights || !constant_) own = packed(plan, pointers);
    const void* weights = own.data() ? own.data() : packed_weights;
    int64_t n = static_cast<int64_t>(plan.directions.size()), batch = plan.directions[0].batch();
    int64_t threads = workers_.threads(), parts = n >= threads ? 1 : (threads + n - 1) / n;
    bool is_by_rows = batch >= parts * rows_worth_a_thread && is_near(plan);
    if (parts > 1 && !is_by_rows && !is_small(plan)) return run_by_units(plan, pointers, weights);
    if (!is_by_rows) parts = 1;
    workers_.run(n * parts, [&](int64_t c) {
      int64_t d = c / parts, part = c % parts;
      run_rows_of(plan, d, pointers, weights, batch * part / parts, batch * (part + 1) / parts);
    });
  }

 private:
  struct Plan {
    std::vector<PlacedDirection> directions;
    RecurrentWeights weights;
  };

  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> symbols) const {
    return plans_.get(symbols, [&] {
      std::vector<PlacedDirection> directions;
      for (const RecurrentDirection& d : recurrence_.directions)
        directions.emplace_back(program_, d, symbols);
      auto cell = static_cast<microkernel::Cell>(recurrence_.cell);
      int64_t size = directions[0].size(), batch = directions[0].batch();
      return Plan{std::move(directions), RecurrentWeights(cell, size, batch)};
    });
  }

  Memory packed(const Plan& plan, std::span<void* const> pointers) const {
    int64_t bytes = plan.weights.bytes();
    Memory out(static_cast<size_t>(bytes) * plan.directions.size());
    for (size_t d = 0; d < plan.directions.size(); ++d) {
      const Placed& w = plan.directions[d].weights;
      plan.weights.pack(w.data(pointers), w.strides[0], w.strides[1],
                        out.data() + static_cast<int64_t>(d) * bytes);
    }
    return out;
  }
  static const void* weights_of(const Plan& plan, const void* packed, int64_t direction) {
    return static_cast<const std::byte*>(packed) + direction * plan.weights.bytes();
  }

  static bool is_near(const Plan& plan) { return plan.weights.bytes() <= near_bytes; }
  static bool is_small(const Plan& plan) {
    const PlacedDirection& d = plan.directions[0];
    int64_t step = d.batch() * d.size() * d.input.sizes[2];
    return step < small_step || step * d.steps() < small_layer;
  }

  static void run_rows_of(const Plan& plan, int64_t direction, std::span<void* const> pointers,
                          const void* packed, int64_t row, int64_t end) {
    const PlacedDirection& d = plan.directions[static_cast<size_t>(direction)];
    const RecurrentWeights& w = plan.weights;
    float* scratch = thread_floats(w.scratch(end - row));
    for (int64_t i = 0; i < d.steps(); ++i)
      microkernel::step(w, weights_of(plan, packed, direction), d.step(pointers, i), row, end, 0,
                        w.groups(), scratch);
    d.finish(pointers, row, end);
  }

  // All directions advance together, so that there is more to share in each step.
  void run_by_units(const Plan& plan, std::span<void* const> pointers, const void* packed) const {
    const RecurrentWeights& w = plan.weights;
    int64_t n = static_cast<int64_t>(plan.directions.size()), groups = w.groups();
    int64_t parts = std::min(groups, (workers_.threads() + n - 1) / n);
    int64_t batch = plan.directions[0].batch(), steps = plan.directions[0].steps();
    Lockstep(steps, n * parts).run(workers_, [&] {
      float* scratch = thread_floats(w.scratch(batch));
      return [&, scratch](int64_t i, int64_t c) {
        int64_t d = c / parts, part = c % parts;
        microkernel::step(w, weights_of(plan, packed, d),
                          plan.directions[static_cast<size_t>(d)].step(pointers, i), 0, batch,
                          groups * part / parts, groups * (part + 1) / parts, scratch);
      };
    });
    for (const PlacedDirection& d : plan.directions) d.finish(pointers, 0, batch);
  }

  const Program& program_;
  const Recurrence& recurrence_;
  bool constant_;
  Workers workers_;
  Plans<Plan> plans_;
};

}  // namespace

std::unique_ptr<LibraryCall> prepare(const Program& program, const Recurrence& recurrence,
                                     bool constant_weights, const Workers& workers) {
  return std::make_unique<RecurrenceCall>(program, recurrence, constant_weights, workers);
}

}  // namespace inductor
