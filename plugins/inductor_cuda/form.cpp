// The choice of a form, and what follows from it.
#include "form.h"

#include "accesses.h"

#include <loopir/making/nest_key.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>

namespace inductor_cuda {

using loopir::Fold;
using loopir::Stage;
using loopir::Statement;
using FormKind = Form::Kind;

namespace {

template <class F>
bool any_statement(const loopir::Nest& nest, F&& f) {
  for (const Stage& stage : nest.kernel.stages)
    if (std::any_of(stage.statements.begin(), stage.statements.end(), f)) return true;
  return false;
}

class Planner {
 public:
  Planner(loopir::Program& program, const loopir::Nest& nest, const FormOptions& options)
      : program_(program), x_(program.expressions), options_(options) {
    plan_.nest = nest;
  }

  KernelPlan run(bool fast) {
    constexpr int64_t much = 1024;  // points of a column that are worth more threads
    spread_scatter();
    plan_.form.kind = kind();
    if (fast) plan_.form.vector = widest();
    unsigned spills = options_.spills, bound = fast ? threads_at_once() : 0;
    if (bound > 0 && spills > 0) bound = 0, --spills;
    plan_.form.vector = std::max(plan_.form.vector >> spills, 1u);
    if (plan_.form.kind == FormKind::rows) plan_rows(spills);
    constexpr unsigned most_blocks = 16;  // that any multiprocessor holds
    plan_.form.least_blocks = std::min(bound / plan_.form.threads, most_blocks);
    if (plan_.form.kind == FormKind::columns && longest_stage() >= much) plan_.form.threads = 512;
    for (const Access& a : accesses_of(program_, plan_.nest)) add(a);
    for (const Access& a : draws_of(program_, plan_.nest)) add_draw(a);
    plan_.has_checks = has_checks(program_, plan_.nest);
    count_folds();
    add_scratch();
    count_units();
    plan_.is_open = has_any_length();
    if (fast) choose_index();
    add_numbers(program_, plan_.nest, {plan_.units, plan_.blocks}, plan_.numbers);
    return std::move(plan_);
  }

 private:
  void spread_scatter();
  FormKind kind();
  bool turns_tiles();
  unsigned widest();
  bool adds_vectors() const;
  unsigned threads_at_once();
  void plan_rows(unsigned spills);
  int64_t elements_of_thread();
  bool rows_in_registers(Id variable);
  void add(const Access& access);
  void add_draw(const Access& access);
  void count_folds();
  void add_scratch();
  void count_units();
  bool has_statements_apart() const;
  bool has_any_length() const;
  void choose_index();
  /// With a thread for each point of the outer variables.
  bool has_enough_threads() const {
    constexpr int64_t threads_of_multiprocessor = 2048;
    return hint_of(plan_.nest.kernel.outer) >= options_.multiprocessors * threads_of_multiprocessor;
  }
  int64_t hint_of(const Ids& variables) const {
    int64_t n = 1;
    for (Id v : variables) n *= std::max<int64_t>(x_.hint(x_.extent_of(v)), 1);
    return n;
  }
  bool knows_rows() const {
    return std::ranges::all_of(plan_.nest.kernel.stages, [&](const Stage& stage) {
      return std::ranges::all_of(stage.inner,
                                 [&](Id v) { return x_.number_of(x_.extent_of(v)).has_value(); });
    });
  }
  int64_t longest_stage() const {
    int64_t n = 0;
    for (const Stage& stage : plan_.nest.kernel.stages)
      if (!stage.inner.empty()) n = std::max(n, hint_of(stage.inner));
    return n;
  }

  loopir::Program& program_;
  loopir::Expressions& x_;
  const FormOptions& options_;
  KernelPlan plan_;
};

/// A scatter whose points may meet in any order.
bool is_changed_as_one(const Statement& s, int32_t dtype, bool is_deterministic) {
  bool is_real = dtype == TN_F32 || dtype == TN_F64, is_whole = dtype == TN_I32 || dtype == TN_I64;
  bool is_extreme = s.store == loopir::Store::minimum || s.store == loopir::Store::maximum;
  if (s.store == loopir::Store::add) return is_whole || (is_real && !is_deterministic);
  return is_extreme && is_whole;
}

// Where few threads would have many points each, every point is a thread's.
void Planner::spread_scatter() {
  loopir::Kernel& kernel = plan_.nest.kernel;
  if (kernel.stages.size() != 1 || kernel.stages[0].statements.size() != 1) return;
  Stage& stage = kernel.stages[0];
  const Statement& s = stage.statements[0];
  if (!s.is_scatter || stage.inner.empty() || has_enough_threads()) return;
  if (!is_changed_as_one(s, program_.buffers[s.buffer].dtype, options_.is_deterministic)) return;
  bool has_lengths_by_data = std::any_of(stage.inner.begin(), stage.inner.end(), [&](Id v) {
    Id extent = x_.extent_of(v);
    return x_.reads_data(extent) || !x_.variables_of_index(extent).empty();
  });
  if (has_lengths_by_data) return;
  // The lanes stay last.
  kernel.outer.insert(kernel.outer.begin(), stage.inner.begin(), stage.inner.end());
  for (Id v : stage.inner) plan_.nest.rows = x_.multiply(plan_.nest.rows, x_.extent_of(v));
  stage.inner.clear();
  plan_.is_atomic = true;
}

// Rows shorter than a warp, points that run in order, and columns that are scanned, are a thread's.
FormKind Planner::kind() {
  const loopir::Nest& nest = plan_.nest;
  bool in_order = any_statement(nest, [&](const Statement& s) {
    return (s.is_scan && nest.lanes != none) || (s.is_scatter && !plan_.is_atomic);
  });
  int64_t inner = longest_stage();
  if (!in_order && inner == 0 && turns_tiles()) return FormKind::tiles;
  if (in_order || inner < warp_size) return FormKind::points;
  if (nest.lanes == none) return FormKind::rows;
  return has_enough_threads() ? FormKind::points : FormKind::columns;
}

// Worth it where tiles are mostly full, and fit into shared memory.
bool Planner::turns_tiles() {
  constexpr int64_t short_side = side_of_tile / 2, most_tiles = 4;
  const loopir::Nest& nest = plan_.nest;
  bool has_inner = std::any_of(nest.kernel.stages.begin(), nest.kernel.stages.end(),
                               [](const Stage& s) { return !s.inner.empty(); });
  if (nest.lanes == none || has_inner || plan_.is_atomic) return false;
  Id across = none;
  Ids loads = crossed_loads(program_, nest, across);
  bool is_few = !loads.empty() && static_cast<int64_t>(loads.size()) <= most_tiles;
  if (!is_few || hint_of({across}) < short_side || hint_of({nest.lanes}) < short_side) return false;
  plan_.across = across;
  plan_.crossed = std::move(loads);
  for (Id load : plan_.crossed)
    plan_.tile_item = std::max(plan_.tile_item, loopir::item_size(x_.dtype_of(load)));
  plan_.fold_bytes =
      static_cast<int64_t>(plan_.crossed.size()) * side_of_tile * pitch_of_tile * plan_.tile_item;
  return true;
}

// Scattered sums of f32 are as many neighbours a thread as one instruction adds to; what else is
// changed as one is an element a thread: those of a warp meet in one sector each.
bool Planner::adds_vectors() const {
  const Statement& s = plan_.nest.kernel.stages[0].statements[0];
  return options_.adds_together > 1 && s.store == loopir::Store::add &&
         program_.buffers[s.buffer].dtype == TN_F32;
}

// 16 bytes of the narrowest elements that lie beside each other, 8 elements at most.
unsigned Planner::widest() {
  if (plan_.is_atomic && !adds_vectors()) return 1;
  if (plan_.form.kind == FormKind::columns || plan_.form.kind == FormKind::tiles) return 1;
  bool has_inner = longest_stage() > 0;
  if (plan_.form.kind == FormKind::points && has_inner) return 1;
  int64_t narrowest = 16;
  for (const Access& a : accesses_of(program_, plan_.nest)) {
    auto step = a.lanes == none ? std::nullopt : x_.coefficient(a.index, a.lanes);
    if (step && x_.is(*step, 1))
      narrowest = std::min(narrowest, loopir::item_size(program_.buffers[a.buffer].dtype));
  }
  auto out = static_cast<unsigned>(std::min<int64_t>(16 / narrowest, 8));
  if (plan_.is_atomic) out = std::min(out, options_.adds_together);
  auto fit = [&](Id lanes) {
    if (lanes == none) return;
    auto n = x_.number_of(x_.extent_of(lanes));
    while (n && out > 1 && *n < out) out /= 2;
  };
  fit(plan_.nest.lanes);
  if (plan_.form.kind != FormKind::rows) return out;
  // Threads of a row take whole vectors.
  for (Id lanes : plan_.nest.lanes_of_stage) {
    if (lanes == none) continue;
    Id extent = x_.extent_of(lanes);
    auto n = x_.number_of(extent);
    while (n && out > 1 && *n % out) out /= 2;
  }
  return out;
}

// Left to itself the driver's assembler gives a thread registers that it could do without, and a
// multiprocessor holds half the threads then, too few to keep memory busy.
unsigned Planner::threads_at_once() {
  constexpr unsigned all = 2048, enough = 1024, vector_of_narrow = 8;
  const Form& form = plan_.form;
  if (form.kind == FormKind::rows) return rows_folded(program_, plan_.nest) == 1 ? enough : 0;
  bool is_narrow = form.kind == FormKind::points && form.vector == vector_of_narrow;
  return is_narrow && needs_few_registers(program_, plan_.nest) ? all : 0;
}

// Four accesses where one row is all that is kept, 16 elements else, and where the row is short.
int64_t Planner::elements_of_thread() {
  constexpr int64_t usual = 16, accesses = 4, least_threads = 64;
  int64_t most = accesses * plan_.form.vector;
  bool is_long = knows_rows() && longest_stage() >= most * least_threads;
  return is_long && rows_folded(program_, plan_.nest) == 1 ? std::max(usual, most) : usual;
}

// Twice as many elements are kept in registers where no row is longer.
void Planner::plan_rows(unsigned spills) {
  Form& form = plan_.form;
  int64_t length = std::max<int64_t>(longest_stage(), 1);
  auto threads = std::bit_ceil(static_cast<uint64_t>(length / elements_of_thread()));
  form.threads = static_cast<unsigned>(std::clamp<uint64_t>(threads, warp_size, 512));
  for (Id lanes : plan_.nest.lanes_of_stage) {
    if (lanes == none || form.vector == 1) continue;
    Id extent = x_.extent_of(lanes);
    if (!is_multiple(program_, extent, form.vector, plan_.conditions.multiples)) form.vector = 1;
  }
  Id row = spills < 2 ? common_row(program_, plan_.nest) : none;
  if (row != none) rows_in_registers(row);
}

bool Planner::rows_in_registers(Id variable) {
  constexpr int64_t most = 32;
  int64_t n = x_.range(x_.extent_of(variable)).upper;
  int64_t together = int64_t{plan_.form.threads} * plan_.form.vector;
  if (n > most * plan_.form.threads) return false;
  plan_.form.in_registers = static_cast<unsigned>((n + together - 1) / together);
  name_rows(program_, variable, plan_.nest);
  return true;
}

void Planner::add(const Access& a) {
  const loopir::Buffer& info = program_.buffers[a.buffer];
  bool is_scratch = info.place == loopir::Buffer::Place::scratch;
  bool is_number = info.place == loopir::Buffer::Place::number;
  Ids& list = is_number ? plan_.host_numbers : plan_.buffers;
  if (!is_scratch && std::find(list.begin(), list.end(), a.buffer) == list.end())
    list.push_back(a.buffer);
  if (is_number) return;
  bool is_one_by_one = a.is_masked && !(a.is_changed && plan_.is_atomic);
  if (plan_.form.vector == 1 || a.lanes == none || is_one_by_one) return;
  auto item = static_cast<unsigned>(loopir::item_size(info.dtype));
  unsigned width = std::min(plan_.form.vector, 16 / item);
  width = widest_access(program_, a, width, plan_.conditions.multiples);
  if (width == 1) return;
  plan_.widths[{a.buffer, a.index, a.lanes}] = width;
  unsigned& aligned = plan_.conditions.aligned[a.buffer];
  if (!is_scratch) aligned = std::max(aligned, width * item);
}

// Four neighbours are made of the same two blocks.
void Planner::add_draw(const Access& a) {
  constexpr unsigned most = 4;
  if (plan_.form.vector == 1 || a.lanes == none) return;
  unsigned width = std::min(plan_.form.vector, most);
  width = widest_access(program_, a, width, plan_.conditions.multiples);
  if (width > 1) plan_.widths[{none, a.index, a.lanes}] = width;
}

// In rows each fold has a part for each warp; in columns a part for each thread serves all folds.
// Rows of the kernel's own lie behind them and are read by 16 bytes.
void Planner::count_folds() {
  int64_t threads = plan_.form.threads;
  if (plan_.form.kind == FormKind::columns) plan_.fold_bytes = threads * bytes_of_part;
  if (plan_.form.kind == FormKind::rows && threads > warp_size)
    plan_.fold_bytes = int64_t{plan_.nest.kernel.n_folds} * (threads / warp_size) * bytes_of_part;
  plan_.fold_bytes = (plan_.fold_bytes + 15) / 16 * 16;
}

void Planner::add_scratch() {
  for (Id b : plan_.nest.kernel.scratch) {
    int64_t elements = 1;
    for (Id size : program_.buffers[b].sizes) elements *= x_.range(size).upper;
    elements = std::max<int64_t>(elements, 1);  // a row of none has a place, too
    plan_.scratch[b] = plan_.scratch_bytes;
    plan_.scratch_bytes += (elements * loopir::item_size(program_.buffers[b].dtype) + 15) / 16 * 16;
  }
  if (plan_.form.in_registers > 0) plan_.scratch_bytes = 0;
  plan_.scratch_is_shared = plan_.form.kind == FormKind::rows &&
                            plan_.scratch_bytes + plan_.fold_bytes <= options_.shared_bytes;
  if (!plan_.has_global_scratch()) return;
  for (auto& [access, width] : plan_.widths)  // elements of one unit do not lie beside each other
    if (plan_.scratch.contains(access.buffer)) width = 1;
}

// One point has one thread, in which statements that share nothing, such as the corrections of an
// optimiser's parameters, would wait for each other.
bool Planner::has_statements_apart() const {
  const loopir::Kernel& kernel = plan_.nest.kernel;
  bool is_list = plan_.form.kind == FormKind::points && kernel.outer.empty() &&
                 kernel.stages.size() == 1 && kernel.stages[0].inner.empty() &&
                 kernel.stages[0].statements.size() > 1 && !plan_.has_global_scratch();
  if (!is_list) return false;
  Ids read, written;
  for (const Statement& s : kernel.stages[0].statements) {
    if (s.fold != Fold::none || s.is_scan || s.is_scatter || s.buffer == none) return false;
    loopir::add_loads(x_, s.value, read);
    written.push_back(s.buffer);
  }
  return std::ranges::none_of(written,
                              [&](Id b) { return std::ranges::find(read, b) != read.end(); });
}

// What goes along one line of a length that is known need not know it: one code then serves lines of
// all lengths, such as an optimiser's parameters.
bool Planner::has_any_length() const {
  const loopir::Kernel& kernel = plan_.nest.kernel;
  bool is_line = plan_.form.kind == FormKind::points && plan_.nest.lanes != none &&
                 kernel.outer.size() == 1 && kernel.stages.size() == 1 &&
                 kernel.stages[0].inner.empty() && !plan_.is_atomic && !plan_.has_global_scratch();
  if (!is_line) return false;
  auto n = x_.number_of(x_.extent_of(plan_.nest.lanes));
  return n && *n % plan_.form.vector == 0;
}

void Planner::count_units() {
  const loopir::Nest& nest = plan_.nest;
  plan_.apart = has_statements_apart();
  auto rounded_up = [&](Id n, int64_t by) {
    return x_.floordiv(x_.add(n, x_.constant(by - 1)), x_.constant(by));
  };
  plan_.units = nest.rows;
  if (nest.lanes != none)
    plan_.units =
        x_.multiply(nest.rows, rounded_up(x_.extent_of(nest.lanes), int64_t{plan_.form.vector}));
  if (plan_.apart)
    plan_.units = x_.constant(static_cast<int64_t>(threads_of_warp) *
                              static_cast<int64_t>(nest.kernel.stages[0].statements.size()));
  switch (plan_.form.kind) {
    case FormKind::points:
      plan_.blocks = rounded_up(plan_.units, plan_.form.threads);
      break;
    case FormKind::rows:
      plan_.blocks = plan_.units;
      break;
    case FormKind::columns:
      plan_.blocks = x_.multiply(nest.rows, rounded_up(x_.extent_of(nest.lanes), columns_of_block));
      break;
    case FormKind::tiles:
      plan_.blocks = x_.multiply(rounded_up(x_.extent_of(plan_.across), side_of_tile),
                                 rounded_up(x_.extent_of(nest.lanes), side_of_tile));
      for (Id v : nest.kernel.outer)
        if (v != plan_.across && v != nest.lanes)
          plan_.blocks = x_.multiply(plan_.blocks, x_.extent_of(v));
      break;
  }
}

// Whether numbers of 31 bits reach every element.
void Planner::choose_index() {
  constexpr int64_t most = int64_t{1} << 31, likely = int64_t{1} << 30;
  bool is_known = true, is_likely = true;
  auto see = [&](int64_t upper, int64_t hint) {
    is_known = is_known && upper < likely;
    is_likely = is_likely && hint < most / 2;
  };
  for (Id b : plan_.buffers) {
    const loopir::Buffer& info = program_.buffers[b];
    Id span = x_.constant(1);
    for (size_t d = 0; d < info.sizes.size(); ++d)
      span = x_.add(span, x_.multiply(info.sizes[d], info.strides[d]));
    see(x_.range(span).upper, x_.hint(span));
  }
  Id points = x_.multiply(plan_.blocks, x_.constant(int64_t{plan_.form.threads}));
  see(x_.range(points).upper, x_.hint(points));
  for (const Stage& stage : plan_.nest.kernel.stages)
    for (Id v : stage.inner) see(x_.range(x_.extent_of(v)).upper, x_.hint(x_.extent_of(v)));
  if (!is_likely) return;
  plan_.form.index_bits = 32;
  plan_.conditions.counts_in_32_bits = !is_known;
}

bool is_unconditional(const loopir::Program& program, const Conditions& c) {
  using Place = loopir::Buffer::Place;
  // The host gives aligned memory; a tensor of the caller's may be a view of anything.
  bool is_aligned = std::all_of(c.aligned.begin(), c.aligned.end(), [&](const auto& entry) {
    Place place = program.buffers[entry.first].place;
    return place == Place::temporary || place == Place::scratch;
  });
  return c.multiples.empty() && is_aligned && !c.counts_in_32_bits;
}

}  // namespace

std::vector<KernelPlan> plans_of(loopir::Program& program, const loopir::Kernel& kernel,
                                 const FormOptions& options) {
  constexpr int64_t lanes_of_vector = 4;
  loopir::Nest nest = loopir::make_nest(program, kernel, lanes_of_vector);
  std::vector<KernelPlan> out;
  if (options.allows_fast) out.push_back(Planner(program, nest, options).run(true));
  if (out.empty() || !is_unconditional(program, out[0].conditions))
    out.push_back(Planner(program, nest, options).run(false));
  return out;
}

std::string key_of(loopir::Program& program, const KernelPlan& plan, const std::string& options) {
  const Form& f = plan.form;
  Ids buffers = plan.buffers;
  buffers.insert(buffers.end(), plan.host_numbers.begin(), plan.host_numbers.end());
  std::string head = tenon::plugin::text(
      "form {} threads {} blocks {} vector {} registers {} bits {} scratch {} {} numbers {} atomic "
      "{}",
      static_cast<int>(f.kind), f.threads, f.least_blocks, f.vector, f.in_registers, f.index_bits,
      plan.scratch_bytes, plan.scratch_is_shared, plan.host_numbers.size(), plan.is_atomic);
  if (plan.apart) head += " apart";
  if (plan.is_open) head += " open";
  for (const auto& [access, width] : plan.widths) head += tenon::plugin::text(" w{}", width);
  return options + "\n" +
         loopir::key_of(program, plan.nest,
                        {.head = head,
                         .buffers = buffers,
                         .scratch_offsets = plan.scratch,
                         .past_caches = {},
                         .open = plan.is_open ? plan.nest.lanes : none});
}

}  // namespace inductor_cuda
