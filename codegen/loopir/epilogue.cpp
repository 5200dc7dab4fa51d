// What follows a product or a convolution, done while its result is still in registers.
//
// Problem: the activation after a layer reads and writes the layer's whole result again. Library
// routines can apply some functions to it before it is stored.
//
// Method: a kernel that does nothing but f(result[i]) for every i, with nobody else reading the
// result, is compared, expression by expression from the outside in, with the formulas of those
// functions. Each step inwards is one epilogue op; the residual of an addition is a further operand
// with the result's layout. Values are hash-consed, so "the same x twice" is equality of ids. What
// does not match stays a kernel of its own. A product of narrow floats also takes over the rounding
// of its result; roundings in between are left out where values in registers are not rounded.
//
// A kernel that writes the elements in another layout, as a graph output is promised in, is a part
// of a convolution too where that may write in any layout.
#include "kernel.h"
#include "lower/convolutions.h"

#include <algorithm>
#include <bit>

namespace loopir {

namespace {

/// Takes a value apart.
struct Matcher {
  const Expressions& x;

  bool is(Id v, uint16_t code) const { return v != none && x.value_at(v).code == code; }
  bool is_number(Id v, double number) const {
    if (!is(v, value_constant)) return false;
    const ValueNode& n = x.value_at(v);
    uint64_t bits = n.a | uint64_t{n.b} << 32;
    double tolerance = n.dtype == TN_F64 ? 1e-15 : 1e-6;
    return std::abs(std::bit_cast<double>(bits) - number) <= tolerance * std::abs(number);
  }
  /// The other operand of a commutative op one of whose operands is `number`.
  Id other(Id v, uint16_t code, double number) const {
    if (!is(v, code)) return none;
    const ValueNode& n = x.value_at(v);
    return is_number(n.b, number) ? n.a : is_number(n.a, number) ? n.b : none;
  }
  Id operand(Id v, uint16_t code) const { return is(v, code) ? x.value_at(v).a : none; }

  // min(max(u + 3, 0), 6)
  Id clipped(Id v) const {
    Id high = other(v, TN_F_MIN, 6);
    Id low = high == none ? none : other(high, TN_F_MAX, 0);
    return low == none ? none : other(low, TN_F_ADD, 3);
  }

  Id relu(Id v) const {
    if (Id u = other(v, TN_F_MAX, 0); u != none) return u;
    if (!is(v, TN_F_SELECT)) return none;
    const ValueNode& s = x.value_at(v);
    if (!is(s.a, TN_F_LT) || !is_number(s.b, 0)) return none;
    const ValueNode& c = x.value_at(s.a);
    return c.a == s.c && is_number(c.b, 0) ? s.c : none;
  }
  Id hardsigmoid(Id v) const {
    if (!is(v, TN_F_DIV) || !is_number(x.value_at(v).b, 6)) return none;
    return clipped(x.value_at(v).a);
  }
  Id hardswish(Id v) const {
    if (is(v, TN_F_DIV) && is_number(x.value_at(v).b, 6)) {
      Id product = x.value_at(v).a;
      if (!is(product, TN_F_MUL)) return none;
      const ValueNode& n = x.value_at(product);
      return clipped(n.a) == n.b && n.b != none   ? n.b
             : clipped(n.b) == n.a && n.a != none ? n.a
                                                  : none;
    }
    if (!is(v, TN_F_MUL)) return none;
    const ValueNode& n = x.value_at(v);
    return hardsigmoid(n.a) == n.b ? n.b : hardsigmoid(n.b) == n.a ? n.a : none;
  }
  // x * 0.5 * (1 + f(x)), f found by `inner`; the product in any order
  template <class Inner>
  Id half_times(Id v, Inner&& inner) const {
    if (!is(v, TN_F_MUL)) return none;
    const ValueNode& n = x.value_at(v);
    for (auto [half, rest] : {std::pair(n.a, n.b), std::pair(n.b, n.a)}) {
      Id u = other(half, TN_F_MUL, 0.5), f = other(rest, TN_F_ADD, 1);
      if (u != none && f != none && inner(f, u)) return u;
    }
    return none;
  }
  Id gelu_erf(Id v) const {
    return half_times(v, [&](Id f, Id u) {
      return is(f, TN_F_ERF) && other(operand(f, TN_F_ERF), TN_F_MUL, 0.70710678118654752) == u;
    });
  }
  /// The other operand of a product one of whose operands is `u`.
  Id without(Id v, Id u) const {
    if (!is(v, TN_F_MUL)) return none;
    const ValueNode& n = x.value_at(v);
    return n.a == u ? n.b : n.b == u ? n.a : none;
  }
  // sqrt(2 / pi) * (u + 0.044715 * u * u * u)
  bool is_argument_of_gelu(Id v, Id u) const {
    Id sum = v == none ? none : other(v, TN_F_MUL, 0.79788456080286536);
    if (!is(sum, TN_F_ADD)) return false;
    const ValueNode& n = x.value_at(sum);
    Id cube = n.a == u ? n.b : n.b == u ? n.a : none;
    return other(without(without(cube, u), u), TN_F_MUL, 0.044715) == u;
  }
  Id gelu_tanh(Id v) const {
    return half_times(v, [&](Id f, Id u) { return is_argument_of_gelu(operand(f, TN_F_TANH), u); });
  }

  Id silu(Id v) const {
    if (!is(v, TN_F_MUL)) return none;
    const ValueNode& n = x.value_at(v);
    return operand(n.a, TN_F_SIGMOID) == n.b ? n.b : operand(n.b, TN_F_SIGMOID) == n.a ? n.a : none;
  }
};

class Absorber {
 public:
  Absorber(Program& program, Schedule& schedule, const AbsorbRules& rules)
      : program_(program), x_(program.expressions), schedule_(schedule), rules_(rules) {}

  void run() {
    count_readers();
    for (size_t i = 0; i < schedule_.items.size(); ++i) {
      Item& item = schedule_.items[i];
      if (auto* p = std::get_if<Product>(&item)) absorb(*p, i);
      if (auto* c = std::get_if<Convolution>(&item)) absorb(*c, i);
    }
    std::vector<Item> kept;
    for (size_t i = 0; i < schedule_.items.size(); ++i)
      if (!dropped_[i]) kept.push_back(std::move(schedule_.items[i]));
    schedule_.items = std::move(kept);
  }

 private:
  void count_readers() {
    readers_.resize(program_.buffers.size());
    writers_.assign(program_.buffers.size(), 0);
    dropped_.assign(schedule_.items.size(), false);
    for (size_t i = 0; i < schedule_.items.size(); ++i) {
      Access access = access_of(program_, schedule_.items[i]);
      for (Id b : access.reads) readers_[b].push_back(i);
      for (Id b : access.writes) ++writers_[b];
    }
    is_output_.assign(program_.buffers.size(), false);
    for (const Output& o : program_.outputs)
      if (o.kind != Output::Kind::absent) is_output_[o.view.buffer] = true;
  }

  /// The one statement that the kernel consists of.
  const Statement* only_statement(size_t item) const {
    const auto* kernel = std::get_if<Kernel>(&schedule_.items[item]);
    if (!kernel || kernel->stages.size() != 1 || !kernel->stages[0].inner.empty() ||
        kernel->stages[0].statements.size() != 1)
      return nullptr;
    const Statement& s = kernel->stages[0].statements[0];
    return s.fold == Fold::none ? &s : nullptr;
  }

  bool is_whole(const View& v) const {
    const Buffer& b = program_.buffers[v.buffer];
    return x_.number_of(v.offset) == 0 && b.place == Buffer::Place::temporary;
  }
  bool same_layout(Id a, Id b) const {
    const Buffer &p = program_.buffers[a], &q = program_.buffers[b];
    return p.dtype == q.dtype && p.sizes == q.sizes && p.strides == q.strides;
  }
  /// Whether the product may store its result there in place of its own buffer: rounded.
  bool may_round(const Product& p, Id to) const {
    const Buffer &from = program_.buffers[p.result.buffer], &b = program_.buffers[to];
    return program_.buffers[p.left.buffer].dtype == b.dtype && is_narrow(b.dtype) &&
           from.dtype == TN_F32 && from.sizes == b.sizes && from.strides == b.strides;
  }
  static bool may_round(const Convolution&, Id) { return false; }
  /// The value without conversions between f32 and narrow floats that round nothing.
  Id unrounded(Id v) const {
    for (; Matcher{x_}.is(v, TN_F_CAST); v = x_.value_at(v).a) {
      int32_t to = x_.dtype_of(v), from = x_.dtype_of(x_.value_at(v).a);
      bool widens = is_narrow(from) && to == TN_F32;
      if (!widens && (rules_.rounds_narrow || from != TN_F32 || !is_narrow(to))) break;
    }
    return v;
  }

  /// A kernel's statement whose value is made of the result of a call.
  struct Reader {
    Id result, load_index;
    Id target, store_index;
  };

  // From the outside in: the last function is found first.
  bool match(Id given, const Reader& r, std::vector<EpilogueOp>& ops) const {
    using Kind = EpilogueOp::Kind;
    Matcher m{x_};
    Id v = unrounded(given);
    if (m.is(v, value_load)) {
      const ValueNode& n = x_.value_at(v);
      return n.a == r.result && n.b == r.load_index && n.c == none;
    }
    struct Candidate {
      Kind kind;
      Id inner;
    };
    const Candidate candidates[] = {{Kind::relu, m.relu(v)},
                                    {Kind::hardswish, m.hardswish(v)},
                                    {Kind::hardsigmoid, m.hardsigmoid(v)},
                                    {Kind::silu, m.silu(v)},
                                    {Kind::gelu_erf, m.gelu_erf(v)},
                                    {Kind::gelu_tanh, rules_.gelu_tanh ? m.gelu_tanh(v) : none},
                                    {Kind::sigmoid, m.operand(v, TN_F_SIGMOID)},
                                    {Kind::tanh, m.operand(v, TN_F_TANH)}};
    for (const Candidate& c : candidates)
      if (c.inner != none && match(c.inner, r, ops)) {
        ops.push_back({c.kind, {}});
        return true;
      }
    return m.is(v, TN_F_ADD) && match_add(x_.value_at(v), r, ops);
  }
  // add() has a factor of 1 on its second operand unless that was folded
  Id without_factor(Id v) const {
    Id inner = Matcher{x_}.other(v, TN_F_MUL, 1);
    return inner == none ? v : inner;
  }
  bool match_add(const ValueNode& add, const Reader& r, std::vector<EpilogueOp>& ops) const {
    for (auto [p, q] : {std::pair(add.a, add.b), std::pair(add.b, add.a)}) {
      Id other = unrounded(without_factor(q));
      if (!Matcher{x_}.is(other, value_load)) continue;
      const ValueNode& n = x_.value_at(other);
      if (n.a == r.result || n.b != r.store_index || n.c != none || !same_layout(n.a, r.target))
        continue;
      if (!match(without_factor(p), r, ops)) continue;
      const Buffer& b = program_.buffers[n.a];
      ops.push_back({EpilogueOp::Kind::add, {n.a, zero_, b.sizes, b.strides}});
      return true;
    }
    return false;
  }

  /// Where a value reads a buffer, if that is one place.
  std::optional<Id> index_of_load(Id value, Id buffer) const {
    Ids found;
    for_each_load(x_, value, [&](const ValueNode& n) {
      if (n.a == buffer) found.push_back(n.b);
    });
    return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
  }
  View whole(Id buffer) const {
    const Buffer& b = program_.buffers[buffer];
    return {buffer, zero_, b.sizes, b.strides};
  }

  bool can_move(const Product&, const Reader&) const { return false; }
  bool can_move(const Convolution& c, const Reader& r) const {
    return is_permutation(r) && rules_.can_move(c);
  }
  /// Whether it takes each element to where it lies in another layout of the same tensor.
  bool is_permutation(const Reader& r) const {
    const Buffer &from = program_.buffers[r.result], &to = program_.buffers[r.target];
    if (from.dtype != to.dtype || from.sizes != to.sizes) return false;
    Ids left = x_.variables_of_index(r.store_index);
    Id loaded = x_.constant(0), stored = loaded;
    for (size_t d = 0; d < from.sizes.size(); ++d) {
      if (x_.is(from.sizes[d], 1)) continue;
      auto v = std::find_if(left.begin(), left.end(), [&](Id v) {
        return x_.extent_of(v) == from.sizes[d] &&
               x_.coefficient(r.load_index, v) == from.strides[d] &&
               x_.coefficient(r.store_index, v) == to.strides[d];
      });
      if (v == left.end()) return false;
      loaded = x_.add(loaded, x_.multiply(*v, from.strides[d]));
      stored = x_.add(stored, x_.multiply(*v, to.strides[d]));
      left.erase(v);
    }
    return loaded == r.load_index && stored == r.store_index;
  }

  template <class Call>
  void absorb(Call& call, size_t at) {
    Id result = call.result.buffer;
    // What another item writes of it, part by part in place, is not the call's.
    if (readers_[result].size() != 1 || writers_[result] != 1) return;
    if (is_output_[result] || !is_whole(call.result)) return;
    size_t reader = readers_[result][0];
    const Statement* s = only_statement(reader);
    if (!s || s->buffer == none) return;
    // A result that is rounded already is not the sum that functions are applied to.
    if (rules_.rounds_narrow && is_narrow(program_.buffers[result].dtype)) return;
    std::optional<Id> load_index = index_of_load(s->value, result);
    if (!load_index) return;
    Reader r{result, *load_index, s->buffer, s->index};
    bool rounds = may_round(call, s->buffer);
    bool moves = !rounds && !same_layout(s->buffer, result);
    if (moves ? !can_move(call, r) : r.load_index != r.store_index) return;
    zero_ = call.result.offset;
    std::vector<EpilogueOp> ops;
    // What is stored in a narrow dtype is rounded at the end.
    bool is_rounded = is_narrow(x_.dtype_of(s->value)) && Matcher{x_}.is(s->value, TN_F_CAST);
    Id value = is_rounded ? x_.value_at(s->value).a : s->value;
    if (!match(value, r, ops) || (ops.empty() && !rounds && !moves)) return;
    Call made = call;
    made.epilogue.insert(made.epilogue.end(), ops.begin(), ops.end());
    made.result.buffer = s->buffer;
    if (moves) made.result = with_space(x_, whole(s->buffer));
    Item item = std::move(made);
    if (!rules_.can(item)) return;
    schedule_.items[reader] = std::move(item);
    dropped_[at] = true;
  }

  Program& program_;
  Expressions& x_;
  Schedule& schedule_;
  const AbsorbRules& rules_;
  std::vector<std::vector<size_t>> readers_;  // items, by buffer
  std::vector<uint32_t> writers_;
  std::vector<bool> dropped_, is_output_;
  Id zero_ = none;  // an index
};

}  // namespace

void absorb_epilogues(Program& program, Schedule& schedule, const AbsorbRules& rules) {
  Absorber(program, schedule, rules).run();
}

}  // namespace loopir
