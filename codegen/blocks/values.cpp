#include "values.h"

#include "index_ops.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace blocks {

using loopir::Ids;
using loopir::IndexKind;
using loopir::IndexNode;
using loopir::ValueNode;
using tenon::plugin::declined;
using tenon::plugin::text;

namespace {

bool is_real(Type t) { return t == Type::f32 || t == Type::f64; }

/// The bits of a constant as its register holds them.
int64_t bits_in(Type type, uint64_t bits) {
  if (type == Type::f64) return static_cast<int64_t>(bits);
  if (type == Type::f32)
    return std::bit_cast<int32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  return static_cast<int64_t>(bits);
}

bool is_comparison(uint16_t code) { return code >= TN_F_EQ && code <= TN_F_GE; }

uint8_t single_of(Shape shape) {
  return shape == Shape::first_single    ? a_is_single
         : shape == Shape::second_single ? b_is_single
                                         : 0;
}

uint32_t add_tile(Code& code, Tile tile) {
  code.tiles.push_back(std::move(tile));
  return static_cast<uint32_t>(code.tiles.size() - 1);
}

bool is_in_memory_form(int32_t dtype) {
  return dtype != TN_F16 && dtype != TN_BF16 && dtype != TN_BOOL;
}

}  // namespace

// ---- values

// What differs from row to row only is made once a row, outside of the segments.
Operand Values::operand(Id v) {
  if (!scopes_.is_of_rows(v)) return value(v);
  OpenLanes segments = std::exchange(scopes_.lanes, rows);
  const loopir::Stage* inside = std::exchange(stage, nullptr);
  Operand out = value(v);
  scopes_.lanes = std::move(segments), stage = inside;
  return {out.value, false, true};
}

Operand Values::value(Id v) {
  bool is_of_rows = scopes_.is_of_rows(v);  // then there are copies for all elements of a row
  size_t scope = is_of_rows ? scopes_.lanes.scope : scopes_.of_value(v);
  bool is_block = scopes_.varies(v);
  auto& known = is_of_rows ? scopes_[scope].filled : scopes_[scope].values;
  if (auto at = known.find(v); at != known.end()) return {at->second, is_block};
  if (is_of_rows) {
    Type type = type_of(x_.dtype_of(v));
    Id from = operand(v).value, out = scopes_.new_value(type, true);
    scopes_.emit(scope, {.what = Do::expand, .is_block = true, .to = type, .out = out, .a = from});
    return {scopes_[scope].filled[v] = out, true};
  }
  Operand made = make_value(v);
  scopes_[scope].values[v] = made.value;
  return made;
}

Operand Values::lane_value(Id v) {
  Operand made = value(v);
  if (made.is_block || !scopes_.lanes.are_open()) return made;
  size_t scope = scopes_.of_value(v);
  auto& known = scopes_[scope].filled;
  if (auto at = known.find(v); at != known.end()) return {at->second, true};
  return {scopes_[scope].filled[v] = block_of(made, scope, type_of(x_.dtype_of(v))), true};
}

Id Values::block_of(Operand single, size_t scope, Type type) {
  Id out = scopes_.new_value(type, true);
  scopes_.emit(scope,
               {.what = Do::fill, .is_block = true, .to = type, .out = out, .a = single.value});
  return out;
}

Operand Values::make_value(Id v) {
  const ValueNode n = x_.value_at(v);
  Step s;
  switch (n.code) {
    case loopir::value_constant:
      s = {.what = Do::constant, .to = type_of(n.dtype)};
      s.number = bits_in(s.to, n.a | uint64_t{n.b} << 32);
      break;
    case loopir::value_real:
      s = {.what = Do::real, .to = Type::f64, .number = n.a};
      break;
    case loopir::value_folded:
      return folded.at(n.a);
    case loopir::value_index:
      if (scopes_.varies(v)) return {places(n.a), true};
      s = {.what = Do::value_of_number, .to = Type::i64, .a = number(n.a)};
      break;
    case loopir::value_load:
      return make_load(v, n);
    case loopir::value_checked:
      return make_check(n);
    case loopir::value_divisor:
      return make_divisor(n);
    default:
      return make_primitive(v, n);
  }
  s.out = scopes_.new_value(s.to, false);
  scopes_.emit(scopes_.of_value(v), s);
  return {s.out, false};
}

// A comparison and the choice that it makes, or a cheap primitive and the one that alone needs it.
std::optional<Operand> Values::make_joined(Id v, const ValueNode& n) {
  if (!scopes_.varies(v) || type_of(n.dtype) != Type::f32) return std::nullopt;
  if (n.code == TN_F_SELECT) {
    const ValueNode mask = x_.value_at(n.a);
    bool is_joined = is_comparison(mask.code) && scopes_.varies(n.a) &&
                     type_of(x_.dtype_of(mask.a)) == Type::f32;
    if (!is_joined) return std::nullopt;
    return join(v, {.code = mask.code, .then = n.code}, {mask.a, mask.b, n.b, n.c});
  }
  if (n.b == none) return std::nullopt;
  for (bool is_second : {false, true}) {
    Id inner = without_one(is_second ? n.b : n.a), other = is_second ? n.a : n.b;
    const ValueNode first = x_.value_at(inner);
    bool is_joined = has_one_use(inner) && scopes_.of_value(inner) == scopes_.of_value(v) &&
                     scopes_.varies(inner) && type_of(first.dtype) == Type::f32 &&
                     elements().joined(first.code, n.code, is_second, 0);
    if (!is_joined) continue;
    return join(v, {.is_second = is_second, .code = first.code, .then = n.code},
                {first.a, first.b, other, none});
  }
  return std::nullopt;
}

// Nothing where there is no loop for what of the operands turns out to be one number. What was made
// of them is found again.
std::optional<Operand> Values::join(Id v, Step s, std::array<Id, 4> operands) {
  Id* places[] = {&s.a, &s.b, &s.c, &s.d};
  for (size_t k = 0; k < operands.size(); ++k) {
    if (operands[k] == none) continue;
    Operand made = operand(operands[k]);
    *places[k] = made.value;
    auto bit = static_cast<uint8_t>(1u << k);
    if (!made.is_block) s.singles |= bit;
    if (made.is_of_rows) s.rows |= bit;
  }
  if (!elements().joined(s.code, s.then, s.is_second, s.singles)) return std::nullopt;
  s.what = Do::join, s.is_block = true;
  s.out = scopes_.new_value(s.to, true);
  scopes_.emit(scopes_.of_value(v), s);
  return Operand{s.out, true};
}

// The other operand of a product with 1, which alpha often is; else the value itself.
Id Values::without_one(Id v) {
  const ValueNode n = x_.value_at(v);
  if (n.code != TN_F_MUL || !is_real(type_of(n.dtype))) return v;
  Id one = x_.number(1.0, n.dtype);
  return n.b == one ? n.a : n.a == one ? n.b : v;
}

Operand Values::make_primitive(Id v, const ValueNode& n) {
  if (Id same = without_one(v); same != v) return value(same);
  if (std::optional<Operand> joined = make_joined(v, n)) return *joined;
  bool is_block = scopes_.varies(v);
  Type from = type_of(x_.dtype_of(n.code == TN_F_SELECT ? n.b : n.a)), to = type_of(n.dtype);
  bool takes_blocks = n.code == TN_F_SELECT;
  Id ids[] = {n.a, n.b, n.c};
  Operand operands[3] = {{none, false}, {none, false}, {none, false}};
  for (int i = 0; i < 3; ++i)
    if (ids[i] != none)
      operands[i] = is_block && takes_blocks ? lane_value(ids[i]) : operand(ids[i]);
  if (n.code == TN_F_CAST && from == to) return operands[0];
  Shape shape =
      !is_block || n.b == none || takes_blocks || operands[0].is_block == operands[1].is_block
          ? Shape::blocks
      : operands[0].is_block ? Shape::second_single
                             : Shape::first_single;
  if (!elements().primitive(n.code, from, to, shape))
    throw declined(text("primitive {} has no loop for dtype {}", n.code, x_.dtype_of(n.a)));
  Step s{.what = Do::apply,
         .is_block = is_block,
         .singles = single_of(shape),
         .rows = static_cast<uint8_t>(operands[0].is_of_rows | operands[1].is_of_rows << 1),
         .code = n.code,
         .from = from,
         .to = to,
         .out = scopes_.new_value(to, is_block),
         .a = operands[0].value,
         .b = operands[1].value,
         .c = operands[2].value};
  scopes_.emit(scopes_.of_value(v), s);
  return {s.out, is_block};
}

// ---- memory

// Neighbouring variables are one where the slower one goes on where the faster one ends.
Tile Values::tile_of(const Ids& steps) {
  const Ids& variables = scopes_.lanes.variables;
  Tile out;
  Ids kept;
  for (size_t k = 0; k < variables.size(); ++k) {
    Id extent = x_.extent_of(variables[k]);
    if (!kept.empty() && kept.back() == x_.multiply(steps[k], extent)) {
      kept.back() = steps[k];
      if (out.extents.size() > 1) out.extents.back() *= *x_.number_of(extent);
      continue;
    }
    kept.push_back(steps[k]);
    auto count = x_.number_of(extent);
    out.extents.push_back(k == 0 ? 0 : count ? *count : ~int64_t{number(extent)});
  }
  for (Id step : kept) out.steps.push_back(number(step));
  if (kept.size() == 1 && x_.is(kept[0], 1)) out.steps.clear();  // dense
  return out;
}

Values::Access Values::access(Id buffer, Id index, size_t scope) {
  if (is_lane_scratch(buffer))
    return {Where::dense, with_constant(std::max(scope, scopes_.of_index(index)),
                                        Do::multiply_constant, number(index), code_.width)};
  auto steps = scopes_.lane_steps(index);
  if (!steps) return {Where::places, none, places(index)};
  Tile tile = tile_of(*steps);
  if (tile.steps.empty()) return {Where::dense, number(index)};
  return {Where::tiled, number(index), none, add_tile(code_, std::move(tile))};
}

void Values::add_mask(Step& s, Id mask) {
  if (mask == none) return;
  Operand made = value(mask);
  s.c = made.value;
  if (!made.is_block) s.singles |= c_is_single;
}

// While a block of it is in use.
bool Values::is_written(Id buffer) const {
  if (!stage) return writers_[buffer] > 0;
  return std::ranges::any_of(stage->statements,
                             [&](const loopir::Statement& s) { return s.buffer == buffer; });
}

// One element for all lanes.
Operand Values::make_one_load(const ValueNode& n) {
  Step s{.what = Do::load,
         .code = static_cast<uint16_t>(Where::one),
         .dtype = n.dtype,
         .to = type_of(n.dtype),
         .a = number(n.b),
         .buffer = position_of(n.a)};
  add_mask(s, n.c);
  s.out = scopes_.new_value(s.to, false);
  scopes_.emit(std::max(scopes_.of_index(n.b), n.c == none ? 0 : scopes_.of_value(n.c)), s);
  return {s.out, false};
}

Operand Values::make_load(Id v, const ValueNode& n) {
  if (!scopes_.varies(v)) return make_one_load(n);
  size_t scope = std::max(scopes_.lanes.scope, scopes_.of_value(v));
  bool is_lane_row = is_lane_scratch(n.a);
  bool index_varies = is_lane_row || scopes_.index_varies(n.b);
  Step s{.what = Do::load, .is_block = true, .dtype = n.dtype, .to = type_of(n.dtype)};
  add_mask(s, n.c);
  Access at{Where::tiled, none};
  if (index_varies) {
    at = access(n.a, n.b, scope);
  } else {  // one element under a mask that differs
    at.first = number(n.b);
    at.tile = add_tile(code_, {{0}, {number(x_.constant(0))}});
  }
  s.code = static_cast<uint16_t>(at.where);
  s.a = at.first, s.b = at.places, s.tile = at.tile, s.buffer = position_of(n.a);
  bool is_memory =
      at.where == Where::dense && n.c == none && is_in_memory_form(n.dtype) && !is_written(n.a);
  if (is_memory) s.what = Do::point;
  s.out = scopes_.new_value(s.to, true);
  scopes_.emit(scope, s);
  return {s.out, true};
}

Operand Values::make_check(const ValueNode& n) {
  if (x_.dtype_of(n.a) != TN_I64) throw declined("indices are not i64");
  Operand given = value(n.a);
  bool is_block = given.is_block || (n.c != none && scopes_.varies(n.c));
  if (is_block) given = lane_value(n.a);
  Step s{.what = Do::check, .is_block = is_block, .to = Type::i64, .a = given.value};
  s.b = number(n.b);
  add_mask(s, n.c);
  s.out = scopes_.new_value(Type::i64, is_block);
  size_t scope = std::max(scopes_.of_value(n.a), scopes_.of_index(n.b));
  if (n.c != none) scope = std::max(scope, scopes_.of_value(n.c));
  if (is_block) scope = std::max(scope, scopes_.lanes.scope);
  scopes_.emit(scope, s);
  return {s.out, is_block};
}

// The divisor as it is: divisions by 0 give 0.
Operand Values::make_divisor(const ValueNode& n) {
  Operand given = value(n.a);
  bool is_block = given.is_block || (n.c != none && scopes_.varies(n.c));
  if (is_block) given = lane_value(n.a);
  Type type = type_of(x_.dtype_of(n.a));
  if (is_real(type)) throw declined("a divisor that is checked is not an integer");
  Step s{.what = Do::check_divisor, .is_block = is_block, .to = type, .a = given.value};
  add_mask(s, n.c);
  s.out = scopes_.new_value(type, is_block);
  size_t scope = scopes_.of_value(n.a);
  if (n.c != none) scope = std::max(scope, scopes_.of_value(n.c));
  if (is_block) scope = std::max(scope, scopes_.lanes.scope);
  scopes_.emit(scope, s);
  return {s.out, is_block};
}

// ---- numbers

Id Values::number(Id i) {
  size_t scope = scopes_.of_index(i);
  auto& known = scopes_[scope].numbers;
  if (auto at = known.find(i); at != known.end()) return at->second;
  Id out = make_number(i);
  return scopes_[scope].numbers[i] = out;
}

Id Values::combine(size_t scope, Do what, Id a, Id b) {
  Id out = scopes_.new_number();
  scopes_.emit(scope, {.what = what, .out = out, .a = a, .b = b});
  return out;
}
Id Values::with_constant(size_t scope, Do what, Id a, int64_t constant) {
  Id out = scopes_.new_number();
  scopes_.emit(scope, {.what = what, .out = out, .a = a, .number = constant});
  return out;
}

Id Values::make_number(Id i) {
  const IndexNode n = x_.index_at(i);
  size_t scope = scopes_.of_index(i);
  if (n.kind == IndexKind::variable) return scopes_.variable(i);
  if (n.kind == IndexKind::constant || n.kind == IndexKind::symbol) {
    Do what = n.kind == IndexKind::constant ? Do::set_number : Do::symbol;
    return with_constant(0, what, none, n.number);
  }
  if (n.kind == IndexKind::value) {
    Id v = static_cast<Id>(n.number);
    Id out = scopes_.new_number();
    Id from = value(v).value;
    scopes_.emit(
        scope,
        {.what = Do::number_of_value, .from = type_of(x_.dtype_of(v)), .out = out, .a = from});
    return out;
  }
  loopir::Ids operands = n.operands;
  std::ranges::stable_sort(operands, {}, [&](Id o) { return scopes_.of_index(o); });
  bool is_sum = n.kind == IndexKind::sum, is_product = n.kind == IndexKind::product;
  if (!is_sum && !is_product)
    return combine(scope, number_op(n.kind), number(n.operands[0]), number(n.operands[1]));
  // Terms of outer loops are added up in those.
  size_t known = scopes_.of_index(operands[0]);
  Id out = number(operands[0]);
  int64_t neutral = is_sum ? 0 : 1;
  if (n.number != neutral)
    out = with_constant(known, is_sum ? Do::add_constant : Do::multiply_constant, out, n.number);
  for (size_t k = 1; k < operands.size(); ++k) {
    known = std::max(known, scopes_.of_index(operands[k]));
    out = combine(known, is_sum ? Do::add : Do::multiply, out, number(operands[k]));
  }
  return out;
}

Id Values::places(Id i) {
  size_t scope = std::max(scopes_.lanes.scope, scopes_.of_index(i));
  auto& known = scopes_[scope].places;
  if (auto at = known.find(i); at != known.end()) return at->second;
  Id out = make_places(i);
  return scopes_[scope].places[i] = out;
}

// `b` is what all lanes have in common, where it does not vary.
Id Values::apply_places(size_t scope, uint16_t code, Id left, Id right) {
  bool is_single = !scopes_.index_varies(right);
  Id a = places(left), b = none;
  if (is_single) {
    b = scopes_.new_value(Type::i64, false);
    Id from = number(right);
    scopes_.emit(scope, {.what = Do::value_of_number, .to = Type::i64, .out = b, .a = from});
  } else {
    b = places(right);
  }
  return apply_to_places(scope, code, a, b, is_single);
}

Id Values::apply_to_places(size_t scope, uint16_t code, Id a, Id b, bool is_single) {
  Id out = scopes_.new_value(Type::i64, true);
  scopes_.emit(scope, {.what = Do::apply,
                       .is_block = true,
                       .singles = single_of(is_single ? Shape::second_single : Shape::blocks),
                       .code = code,
                       .from = Type::i64,
                       .to = Type::i64,
                       .out = out,
                       .a = a,
                       .b = b});
  return out;
}

// A line is counted; what is made of others is computed for each lane.
Id Values::make_places(Id i) {
  const IndexNode n = x_.index_at(i);
  size_t scope = std::max(scopes_.lanes.scope, scopes_.of_index(i));
  if (auto steps = scopes_.lane_steps(i); steps && n.kind != IndexKind::value) {
    Id out = scopes_.new_value(Type::i64, true), first = number(i);
    Tile tile = tile_of(*steps);
    if (tile.steps.empty()) tile.steps.push_back(number(x_.constant(1)));
    scopes_.emit(scope, {.what = Do::count,
                         .is_block = true,
                         .to = Type::i64,
                         .out = out,
                         .a = first,
                         .tile = add_tile(code_, std::move(tile))});
    return out;
  }
  if (n.kind == IndexKind::value) {
    Id v = static_cast<Id>(n.number);
    Operand made = lane_value(v);
    if (type_of(x_.dtype_of(v)) == Type::i64) return made.value;
    Id out = scopes_.new_value(Type::i64, true);
    scopes_.emit(scope, {.what = Do::apply,
                         .is_block = true,
                         .code = TN_F_CAST,
                         .from = type_of(x_.dtype_of(v)),
                         .to = Type::i64,
                         .out = out,
                         .a = made.value});
    return out;
  }
  bool is_sum = n.kind == IndexKind::sum, is_product = n.kind == IndexKind::product;
  if (!is_sum && !is_product)
    return apply_places(scope, primitive_of(n.kind), n.operands[0], n.operands[1]);
  uint16_t code = is_sum ? TN_F_ADD : TN_F_MUL;
  // What is the same for all lanes is put together first, as a number.
  Id common = x_.constant(n.number);
  Ids varying;
  for (Id o : n.operands) {
    if (scopes_.index_varies(o))
      varying.push_back(o);
    else
      common = is_sum ? x_.add(common, o) : x_.multiply(common, o);
  }
  Id out = none;
  for (Id o : varying)
    out = out == none ? places(o) : apply_to_places(scope, code, out, places(o), false);
  if (x_.is(common, is_sum ? 0 : 1)) return out;
  Id single = scopes_.new_value(Type::i64, false), from = number(common);
  scopes_.emit(scope, {.what = Do::value_of_number, .to = Type::i64, .out = single, .a = from});
  return apply_to_places(scope, code, out, single, true);
}

}  // namespace blocks
