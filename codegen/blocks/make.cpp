#include "make.h"

#include "split.h"
#include "tiles.h"
#include "values.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace blocks {

using loopir::Ids;
using loopir::Stage;
using loopir::Statement;
using tenon::plugin::declined;

namespace {

bool is_real(Type t) { return t == Type::f32 || t == Type::f64; }
bool has_sign(Type t) { return t != Type::u8 && t != Type::truth; }
bool gives_position(loopir::Fold f) {
  return f == loopir::Fold::arg_min || f == loopir::Fold::arg_max;
}

int64_t bits_of(Type type, double number) {
  return type == Type::f32 ? int64_t{std::bit_cast<int32_t>(static_cast<float>(number))}
                           : std::bit_cast<int64_t>(number);
}

/// What a fold of nothing gives, as bits of its state.
int64_t neutral(loopir::Fold fold, Type type) {
  using F = loopir::Fold;
  double infinity = std::numeric_limits<double>::infinity();
  int64_t bits = static_cast<int64_t>(size_of(type) * 8);
  int64_t least = has_sign(type) ? INT64_MIN >> (64 - bits) : 0;
  switch (fold) {
    case F::product:
      return is_real(type) ? bits_of(type, 1) : 1;
    case F::all:
      return type == Type::truth ? 1 : -1;
    case F::maximum:
    case F::arg_max:
    case F::log_sum_exp:
      return is_real(type) ? bits_of(type, -infinity) : least;
    case F::minimum:
    case F::arg_min:
      if (is_real(type)) return bits_of(type, infinity);
      return type == Type::truth ? 1 : has_sign(type) ? ~least : 255;
    default:
      return 0;
  }
}

using Body_of = std::function<void()>;

/// The state of a fold while its stage is made.
struct State {
  Id value = none, place = none;
  Type type{};
};

class Maker {
 public:
  Maker(loopir::Program& program, const loopir::Nest& nest, Made& made,
        const std::map<Id, uint32_t>& buffers, const std::vector<int>& writers)
      : program_(program),
        x_(program.expressions),
        nest_(nest),
        code_(made.code),
        scopes_(program, made.code),
        uses_(uses_in(program, nest.kernel)),
        values_(program, made.code, scopes_, buffers, writers, uses_),
        writers_(writers),
        tile_(tile_of_rows(x_, nest, made.code.width)),
        blocks_(tile_.size() > 1 ? blocks_of(x_, tile_, made.code.width) : none) {
    scopes_.lanes.are_rows = nest.lanes != none;
  }
  void run() {
    make_rows();
    place_registers(code_, scopes_.registers());
  }

 private:
  void make_rows();
  void bind_rows(Id row);
  Id split(Id& row, Id n);
  void make_stages();
  void make_stage(const Stage& stage, Id lanes);
  void make_inner(const Ids& variables, size_t next, const Body_of& body);
  void make_loop(Step loop, Id variable, const Body_of& body);
  void make_lanes(Step loop, const Ids& tile, const Body_of& body);
  bool is_long(const Stage& stage);
  void start(const Statement& s, State& state, bool is_wide);
  void step(const Statement& s);
  void finish(const Statement& s);
  void make_scan(const Statement& s);
  void store(const Statement& s, Operand value);
  void aim(const Statement& s, Operand value, const Values::Access& at);
  void make_statement(const Statement& s);
  bool by_lanes() const { return scopes_.lanes.are_rows; }

  loopir::Program& program_;
  loopir::Expressions& x_;
  const loopir::Nest& nest_;
  Code& code_;
  Scopes scopes_;
  const Uses uses_;
  Values values_;
  const std::vector<int>& writers_;
  const Ids tile_;   // lanes that are rows
  const Id blocks_;  // how many there are of a tile's slowest variable; none of one variable
  std::map<Id, State> states_;  // by fold
};

// ---- loops

void Maker::make_loop(Step loop, Id variable, const Body_of& body) {
  loop.out = scopes_.new_number();
  scopes_.open();
  scopes_.bind(variable, loop.out);
  body();
  scopes_.release(variable);
  loop.number = scopes_.close();
  scopes_.emit(scopes_.innermost(), loop);
}

void Maker::make_lanes(Step loop, const Ids& tile, const Body_of& body) {
  loop.a = values_.number(x_.extent_of(tile[0]));
  loop.inner = inner_of(x_, tile);
  Id zero = tile.size() > 1 ? values_.number(x_.constant(0)) : none;
  make_loop(loop, tile[0], [&] {
    for (size_t k = 1; k < tile.size(); ++k) scopes_.bind(tile[k], zero);
    scopes_.lanes.variables = tile;
    scopes_.lanes.scope = scopes_.innermost();
    body();
    scopes_.lanes.variables.clear();
    for (size_t k = 1; k < tile.size(); ++k) scopes_.release(tile[k]);
  });
}

// The variables that are not lanes, from the number of the row.
void Maker::bind_rows(Id row) {
  Ids own;
  for (Id v : nest_.kernel.outer)
    if (std::ranges::find(tile_, v) == tile_.end()) own.push_back(v);
  for (size_t i = own.size(); i-- > 0;)
    scopes_.bind(own[i], i == 0 ? row : split(row, values_.number(x_.extent_of(own[i]))));
}

// What is left of `row` when it is divided by n; `row` is then the quotient.
Id Maker::split(Id& row, Id n) {
  size_t scope = scopes_.innermost();
  Id rest = scopes_.new_number(), quotient = scopes_.new_number();
  scopes_.emit(scope, {.what = Do::mod, .out = rest, .a = row, .b = n});
  scopes_.emit(scope, {.what = Do::floordiv, .out = quotient, .a = row, .b = n});
  row = quotient;
  return rest;
}

// Units are rows, or blocks of lanes where those are all there is; of lanes over several variables
// a unit is one block.
void Maker::make_rows() {
  auto stages = [&] {
    scopes_.row = scopes_.innermost();
    make_stages();
  };
  if (by_lanes() && nest_.kernel.outer.size() == 1)
    return make_lanes({.what = Do::unit_lanes}, tile_, stages);
  Id row = scopes_.new_number();
  Id blocks = blocks_ == none ? none : values_.number(blocks_);
  scopes_.open();
  Id block = none, rest = row;
  if (blocks != none) block = split(rest, blocks);
  bind_rows(rest);
  if (block != none)
    make_lanes({.what = Do::one_block, .b = block}, tile_, stages);
  else if (by_lanes())
    make_lanes({.what = Do::lanes}, tile_, stages);
  else
    stages();
  uint32_t inside = scopes_.close();
  scopes_.emit(0, {.what = Do::units, .out = row, .number = inside});
}

void Maker::make_stages() {
  for (size_t s = 0; s < nest_.kernel.stages.size(); ++s)
    make_stage(nest_.kernel.stages[s], nest_.lanes_of_stage[s]);
}

void Maker::make_inner(const Ids& variables, size_t next, const Body_of& body) {
  if (next == variables.size()) return body();
  Id v = variables[next];
  Id extent = values_.number(x_.extent_of(v));
  make_loop({.what = Do::loop, .a = extent}, v, [&] { make_inner(variables, next + 1, body); });
}

void Maker::make_stage(const Stage& stage, Id lanes) {
  Ids loops = stage.inner;
  Ids tile = tile_of_stage(x_, stage, lanes, code_.width);
  std::erase_if(loops, [&](Id v) { return std::ranges::find(tile, v) != tile.end(); });
  for (const Statement& s : stage.statements)
    if (s.fold != loopir::Fold::none) start(s, states_[s.folded], is_long(stage));
  Body_of statements = [&] {
    for (const Statement& s : stage.statements) make_statement(s);
  };
  Body_of inner = statements;
  if (lanes != none) inner = [&] { make_lanes({.what = Do::lanes}, tile, statements); };
  values_.stage = lanes == none ? nullptr : &stage;
  make_inner(loops, 0, inner);
  values_.stage = nullptr;
  for (const Statement& s : stage.statements)
    if (s.fold != loopir::Fold::none) finish(s);
}

// ---- folds

// Whether one chain of additions in f32 would not be exact enough.
bool Maker::is_long(const Stage& stage) {
  constexpr int64_t few_steps = 32;
  int64_t steps = 1;
  for (Id v : stage.inner) {
    auto extent = x_.number_of(x_.extent_of(v));
    if (!extent || steps * *extent > few_steps) return true;
    steps *= *extent;
  }
  return false;
}

void Maker::start(const Statement& s, State& state, bool is_wide) {
  Type type = type_of(x_.dtype_of(s.value));
  bool is_wide_sum = is_wide && s.fold == loopir::Fold::sum && type == Type::f32 && !s.is_scan;
  state.type = is_wide_sum ? Type::f64 : type;
  auto begin = [&](Type t, int64_t bits) {
    Id out = scopes_.new_value(t, by_lanes());
    scopes_.emit(scopes_.innermost(),
                 {.what = Do::start, .is_block = by_lanes(), .to = t, .out = out, .number = bits});
    return out;
  };
  state.value = begin(state.type, neutral(s.fold, state.type));
  if (gives_position(s.fold)) state.place = begin(Type::i64, -1);  // after every element
}

void Maker::step(const Statement& s) {
  const State& state = states_.at(s.folded);
  Operand element = values_.lane_value(s.value);
  bool is_place = gives_position(s.fold);
  Id places = none;
  if (is_place) {
    if (scopes_.lanes.are_open()) {
      places = values_.places(s.position);
    } else {
      Id at = values_.number(s.position);
      places = scopes_.new_value(Type::i64, false);
      scopes_.emit(scopes_.innermost(),
                   {.what = Do::value_of_number, .to = Type::i64, .out = places, .a = at});
    }
  }
  scopes_.emit(scopes_.innermost(), {.what = is_place ? Do::fold_place : Do::fold,
                                     .is_block = element.is_block,
                                     .by_lanes = by_lanes(),
                                     .code = static_cast<uint16_t>(s.fold),
                                     .from = type_of(x_.dtype_of(s.value)),
                                     .to = state.type,
                                     .out = state.value,
                                     .a = element.value,
                                     .b = places,
                                     .c = state.place});
}

void Maker::make_scan(const Statement& s) {
  const State& state = states_.at(s.folded);
  Operand element = values_.lane_value(s.value);
  Type type = type_of(x_.dtype_of(s.value));
  size_t scope = scopes_.innermost();
  Id sums = scopes_.new_value(type, element.is_block);
  scopes_.emit(scope, {.what = Do::copy,
                       .is_block = element.is_block,
                       .to = type,
                       .out = sums,
                       .a = element.value});
  scopes_.emit(scope, {.what = Do::scan,
                       .is_block = element.is_block,
                       .by_lanes = by_lanes(),
                       .code = static_cast<uint16_t>(s.fold),
                       .from = type,
                       .out = state.value,
                       .a = sums});
  if (s.buffer != none) store(s, {sums, element.is_block});
}

void Maker::finish(const Statement& s) {
  const State& state = states_.at(s.folded);
  Type type = type_of(x_.dtype_of(s.value));
  Operand result{gives_position(s.fold) ? state.place : state.value, by_lanes()};
  if (state.type != type && !gives_position(s.fold)) {
    Id sum = scopes_.new_value(type, by_lanes());
    scopes_.emit(scopes_.innermost(), {.what = Do::apply,
                                       .is_block = by_lanes(),
                                       .code = TN_F_CAST,
                                       .from = Type::f64,
                                       .to = type,
                                       .out = sum,
                                       .a = result.value});
    result.value = sum;
  }
  values_.folded[s.folded] = result;
  if (s.buffer != none && !s.is_scan) store(s, result);
}

// ---- stores

// What the last step computed is written where it belongs at once.
void Maker::aim(const Statement& s, Operand value, const Values::Access& at) {
  const loopir::Buffer& buffer = program_.buffers[s.buffer];
  std::vector<Step>& steps = scopes_.steps_of(scopes_.innermost());
  bool is_plain = at.where == Where::dense && s.store == loopir::Store::set &&
                  buffer.dtype != TN_F16 && buffer.dtype != TN_BF16 && writers_[s.buffer] == 1;
  if (!is_plain || !value.is_block || steps.empty()) return;
  const Step& last = steps.back();
  if ((last.what != Do::apply && last.what != Do::join) || last.out != value.value) return;
  steps.insert(steps.end() - 1, {.what = Do::point,
                                 .is_block = true,
                                 .dtype = buffer.dtype,
                                 .to = last.to,
                                 .out = value.value,
                                 .a = at.first,
                                 .buffer = values_.position_of(s.buffer)});
}

void Maker::store(const Statement& s, Operand value) {
  size_t scope = scopes_.innermost();
  Values::Access at{Where::one, none};
  if (value.is_block && (values_.is_lane_scratch(s.buffer) || scopes_.index_varies(s.index)))
    at = values_.access(s.buffer, s.index, scope);
  else if (value.is_block)
    throw declined("all lanes of a block are stored at one place");
  else
    at.first = values_.number(s.index);
  scopes_.emit(scope, {.what = Do::store,
                       .is_block = value.is_block,
                       .code = static_cast<uint16_t>(at.where),
                       .dtype = program_.buffers[s.buffer].dtype,
                       .to = type_of(x_.dtype_of(s.value)),
                       .out = value.value,
                       .a = at.first,
                       .b = at.places,
                       .buffer = values_.position_of(s.buffer),
                       .tile = at.tile,
                       .number = static_cast<int64_t>(s.store)});
}

void Maker::make_statement(const Statement& s) {
  if (s.is_scan) return make_scan(s);
  if (s.fold != loopir::Fold::none) return step(s);
  bool may_aim = scopes_.lanes.are_open() && !values_.is_lane_scratch(s.buffer) &&
                 scopes_.index_varies(s.index);
  std::optional<Values::Access> at;
  if (may_aim) at = values_.access(s.buffer, s.index, scopes_.innermost());
  Operand value = values_.lane_value(s.value);
  if (at) aim(s, value, *at);
  store(s, value);
}

// ---- the kernel as a whole

int64_t widest(const loopir::Program& program, const loopir::Kernel& kernel) {
  for (const Stage& stage : kernel.stages)
    for (const Statement& s : stage.statements)
      if (size_of(type_of(program.expressions.dtype_of(s.value))) == 8) return 8;
  return 4;
}

/// No more lanes than the largest block has elements.
int64_t width_for(loopir::Program& program, const loopir::Nest& nest) {
  loopir::Expressions& x = program.expressions;
  int64_t most = lanes_for(program, nest.kernel), largest = 1;
  auto see = [&](const Ids& tile) {
    if (tile.empty()) return;
    auto slowest = x.number_of(x.extent_of(tile[0]));
    largest = std::max(largest, slowest ? *slowest * inner_of(x, tile) : most);
  };
  see(tile_of_rows(x, nest, most));
  for (size_t s = 0; s < nest.kernel.stages.size(); ++s)
    see(tile_of_stage(x, nest.kernel.stages[s], nest.lanes_of_stage[s], most));
  if (largest >= most) return most;
  return std::max<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(largest))), 8);
}

/// Rows, or blocks.
Id units_for(loopir::Program& program, const loopir::Nest& nest, int64_t width) {
  loopir::Expressions& x = program.expressions;
  Ids tile = tile_of_rows(x, nest, width);
  if (tile.size() < 2) return inductor::units_of(program, nest, width);
  Id out = blocks_of(x, tile, width);
  for (Id v : nest.kernel.outer)
    if (std::ranges::find(tile, v) == tile.end()) out = x.multiply(out, x.extent_of(v));
  return out;
}

/// Whether the units of the nest whose lanes were split are those of the whole one.
bool has_units_of(loopir::Expressions& x, const loopir::Nest& whole, const loopir::Nest& split,
                  int64_t width) {
  Ids tile = tile_of_rows(x, split, width);
  if (tile.size() < 2) return split.kernel.outer.size() == whole.kernel.outer.size();
  bool has_other = std::ranges::any_of(whole.kernel.outer, [&](Id v) {
    return v != whole.lanes && std::ranges::find(tile, v) != tile.end();
  });
  return !has_other && whole.kernel.outer.size() > 1 && x.is(blocks_of(x, tile, width), 1);
}

/// In vector instructions, roughly.
double cost_of(loopir::Program& program, const loopir::Nest& nest, const Made& made) {
  loopir::Expressions& x = program.expressions;
  int64_t inner = 1;
  for (const Stage& stage : nest.kernel.stages) {
    int64_t n = 1;
    for (Id v : stage.inner) n *= std::max<int64_t>(x.hint(x.extent_of(v)), 1);
    inner = std::max(inner, n);
  }
  bool units_are_blocks = nest.lanes != none && (nest.kernel.outer.size() == 1 || made.is_tiled);
  if (units_are_blocks)
    inner *= made.code.width;
  else if (nest.lanes != none)
    inner *= std::max<int64_t>(x.hint(x.extent_of(nest.lanes)), 1);
  size_t steps = 0;
  for (const Body& b : made.code.bodies) steps += b.steps.size();
  return static_cast<double>(inner) / 16 * static_cast<double>(steps + 2) * 2 + 40;
}

}  // namespace

int64_t lanes_for(const loopir::Program& program, const loopir::Kernel& kernel) {
  return widest(program, kernel) == 8 ? 256 : 512;
}

Made make_code(loopir::Program& program, const loopir::Nest& whole) {
  const loopir::Nest nest = split_lanes(program, whole);
  Made out;
  Code& code = out.code;
  code.name = nest.kernel.name;
  code.width = width_for(program, nest);
  out.interface.symbol = "blocks";
  out.interface.width = static_cast<unsigned>(code.width);
  inductor::add_buffers(program, nest, out.interface);
  out.interface.units = units_for(program, nest, code.width);
  out.is_tiled = !has_units_of(program.expressions, whole, nest, code.width);
  std::map<Id, uint32_t> positions;
  for (Id b : out.interface.buffers) positions.emplace(b, static_cast<uint32_t>(positions.size()));
  code.n_buffers = static_cast<uint32_t>(positions.size());
  for (const auto& [b, offset] : out.interface.scratch_offsets) {
    positions.emplace(b, static_cast<uint32_t>(positions.size()));
    code.scratch_offsets.push_back(offset);
  }
  code.row_bytes = out.interface.scratch_bytes;
  std::vector<int> writers(program.buffers.size());
  for (const Stage& stage : nest.kernel.stages)
    for (const Statement& s : stage.statements)
      if (s.buffer != none) ++writers[s.buffer];
  Maker(program, nest, out, positions, writers).run();
  out.interface.scratch_bytes = code.scratch_bytes();
  out.interface.cost = cost_of(program, nest, out);
  return out;
}

}  // namespace blocks
