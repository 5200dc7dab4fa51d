#include "maker.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>
#include <limits>

namespace blocks {

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

}  // namespace

// ---- loops

void Maker::make_loop(Step loop, Id variable, const MakeBody& body) {
  loop.out = scopes_.new_number();
  scopes_.open();
  scopes_.bind(variable, loop.out);
  body();
  scopes_.release(variable);
  loop.number = scopes_.close();
  scopes_.emit(scopes_.innermost(), loop);
}

void Maker::make_lanes(Step loop, const Ids& tile, const MakeBody& body) {
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
void Maker::bind_rows(const Ids& own, Id row) {
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
  if (!segments_) return make_units(none);
  Id longest = values_.number(segments_->longest);
  make_short_rows(longest);
  if (!segments_->are_certain) make_units(longest);
}

// `short_rows`: the number by which a call knows whether make_short_rows() is what runs.
void Maker::make_units(Id short_rows) {
  auto stages = [&] {
    scopes_.row = scopes_.innermost();
    make_stages();
  };
  if (by_lanes() && nest_.kernel.outer.size() == 1)
    return make_lanes({.what = Do::unit_lanes}, tile_, stages);
  Id row = scopes_.new_number();
  Id blocks = blocks_ == none ? none : values_.number(blocks_);
  scopes_.open();
  Ids own;
  for (Id v : nest_.kernel.outer)
    if (std::ranges::find(tile_, v) == tile_.end()) own.push_back(v);
  bind_rows(own, row);
  if (by_lanes())
    make_lanes({.what = blocks == none ? Do::lanes : Do::some_blocks}, tile_, stages);
  else
    stages();
  uint32_t inside = scopes_.close();
  scopes_.emit(0, {.what = Do::units, .out = row, .a = blocks, .b = short_rows, .number = inside});
}

void Maker::make_short_rows(Id longest) {
  Id first = scopes_.new_number();
  Id extent = values_.number(x_.extent_of(segments_->rows));
  Ids rows = nest_.kernel.outer;
  std::erase(rows, nest_.lanes);
  scopes_.open();
  bind_rows(rows, first);
  scopes_.lanes = {{segments_->rows}, scopes_.innermost(), true, none};
  scopes_.row = scopes_.innermost();
  values_.rows = scopes_.lanes;
  if (segments_->have_folds)
    make_stages();
  else
    make_segments(nest_.lanes, [&] {
      scopes_.row = scopes_.innermost();
      scopes_.lanes.elements = none;
      scopes_.bind(segments_->rows, scopes_.variable(segments_->rows));  // each lane has its own
      make_stages();
    });
  scopes_.lanes = {};
  scopes_.lanes.are_rows = nest_.lanes != none;
  for (Id v : rows) scopes_.release(v);
  uint32_t inside = scopes_.close();
  scopes_.emit(0,
               {.what = Do::unit_rows, .out = first, .a = extent, .b = longest, .number = inside});
}

void Maker::make_segments(Id elements, const MakeBody& body) {
  Id extent = values_.number(x_.extent_of(elements)), zero = values_.number(x_.constant(0));
  scopes_.open();
  scopes_.bind(elements, zero);
  scopes_.lanes = {{segments_->rows, elements}, scopes_.innermost(), true, elements};
  body();
  scopes_.lanes = values_.rows;
  scopes_.release(elements);
  uint32_t inside = scopes_.close();
  scopes_.emit(scopes_.innermost(),
               {.what = Do::segments, .out = scopes_.new_number(), .a = extent, .number = inside});
}

void Maker::make_stages() {
  for (size_t s = 0; s < nest_.kernel.stages.size(); ++s)
    make_stage(nest_.kernel.stages[s], nest_.lanes_of_stage[s]);
}

void Maker::make_inner(const Ids& variables, size_t next, const MakeBody& body) {
  if (next == variables.size()) return body();
  Id v = variables[next];
  Id extent = values_.number(x_.extent_of(v));
  make_loop({.what = Do::loop, .a = extent}, v, [&] { make_inner(variables, next + 1, body); });
}

void Maker::make_stage(const Stage& stage, Id lanes) {
  Ids loops = stage.inner;
  bool are_segments = by_lanes() && lanes != none;
  Ids tile = are_segments ? Ids{lanes} : tile_of_stage(x_, stage, lanes, code_.width);
  std::erase_if(loops, [&](Id v) { return std::ranges::find(tile, v) != tile.end(); });
  for (const Statement& s : stage.statements)
    if (s.fold != loopir::Fold::none) start(s, states_[s.folded], is_long(stage));
  MakeBody statements = [&] {
    for (const Statement& s : stage.statements) make_statement(s);
  };
  MakeBody inner = statements;
  if (are_segments)
    inner = [&] { make_segments(lanes, statements); };
  else if (lanes != none)
    inner = [&] { make_lanes({.what = Do::lanes}, tile, statements); };
  values_.stage = lanes == none ? nullptr : &stage;
  bool is_empty = std::ranges::any_of(stage.inner, [&](Id v) { return x_.is(x_.extent_of(v), 0); });
  if (!is_empty) make_inner(loops, 0, inner);
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
                                     .by_lanes = by_lanes() && !are_segments_open(),
                                     .code = static_cast<uint16_t>(s.fold),
                                     .from = type_of(x_.dtype_of(s.value)),
                                     .to = state.type,
                                     .out = state.value,
                                     .a = element.value,
                                     .b = places,
                                     .c = state.place,
                                     .number = are_segments_open()});
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

}  // namespace blocks
