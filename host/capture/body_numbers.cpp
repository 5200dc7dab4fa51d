// Lifting numbers of the body.
#include "capture/body_numbers.h"

#include "capture/earlier_turns.h"
#include "capture/follow/path.h"
#include "capture/recording.h"
#include "capture/renamed.h"
#include "config/flags.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "graph/symbol_use.h"
#include "nn/mode.h"
#include "ops/op_table.h"

#include <algorithm>
#include <cmath>

namespace tenon {

namespace {

// Operations take it as a number, not as a choice.
bool may_be_symbol(const SchemaArg& arg) {
  switch (arg.type.base) {
    case BaseType::scalar:
    case BaseType::sym_int:
    case BaseType::floating:
    case BaseType::sym_float:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_place(const NumberPlace& place) {
  return place.is_size() ||
         entry_of(place.op).schema.args[place.arg].type.base == BaseType::sym_int;
}

// `f` gets each graph of a recording, and where its inputs come from.
template <class F>
static void each_part(const Recording& recording, F f) {
  if (!recording.has_graph_breaks()) f(*recording.graph, recording.inputs);
  for (const Segment& segment : recording.segments) f(*segment.graph, segment.inputs);
}

PlainNumbers::PlainNumbers(const Recording& recording) {
  uint32_t step = 0;
  each_part(recording, [&](const Graph& graph, std::span<const ValueOrigin> origins) {
    add_sizes(graph, origins);
    for (const Node& node : graph.nodes())
      if (!is_assertion(node)) add_arguments(step++, node);
  });
}

uint64_t PlainNumbers::course_of(const Recording& recording) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a over words
  each_part(recording, [&](const Graph& graph, const auto&) {
    for (const Node& node : graph.nodes())
      hash = (hash ^ static_cast<uint64_t>(node.op)) * 1099511628211u;
  });
  return hash;
}

// Whichever operation gets the tensor first.
static NumberPlace place_of_size(uint32_t slot, int32_t dim) {
  return {0, NumberPlace::of_size, slot, dim};
}

void PlainNumbers::add_sizes(const Graph& graph, std::span<const ValueOrigin> origins) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const GraphValue& input = graph.value(graph.inputs()[i]);
    if (input.kind != ValueKind::tensor || origins[i].kind != ValueOrigin::Kind::implicit) continue;
    for (size_t d = 0; d < input.meta.sizes.size(); ++d)
      add(place_of_size(origins[i].index, static_cast<int32_t>(d)), input.meta.sizes[d]);
  }
}

void PlainNumbers::add_arguments(uint32_t step, const Node& node) {
  for (uint32_t a = 0; a < node.args.size(); ++a) {
    const Value& arg = node.args[a];
    if (arg.is_number()) add({step, node.op, a, -1}, arg.number());
    for (uint32_t k = 0; arg.tag == Tag::ints && k < arg.count; ++k)
      add({step, node.op, a, static_cast<int32_t>(k)}, arg.as<SymInt>()[k]);
  }
}

void PlainNumbers::add(const NumberPlace& place, Number number) {
  if (!number.is_symbolic()) numbers_.try_emplace(place, number);
}

std::optional<Number> PlainNumbers::operator()(const NumberPlace& place) const {
  auto found = numbers_.find(place.is_size() ? place_of_size(place.arg, place.element) : place);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

bool BodyNumbers::is_wanted(Number plain, const NumberPlace& place) const {
  const config::DynamoFlags& flags = config::flags().dynamo;
  // Below zero a size or a place means something else: the rest, or counted from the end.
  auto is_meant_otherwise = [&](Number n) {
    return is_place(place) && n.is_integer() && n.to_int() < 0;
  };
  if (plain.is_symbolic() || plain.is_boolean()) return false;
  if (plain.is_floating() ? flags.specialize_float : flags.specialize_int) return false;
  if (plain.is_integer() && nn::n_static_modules) return false;
  if (is_meant_otherwise(plain)) return false;
  if (wanted_ && wanted_->contains(place)) return true;
  bool has_value_of_one = values_.contains({plain.is_floating(), plain.word()});
  if (has_value_of_one && !is_place(place) && turns_.are_none()) return true;
  auto is_another = [&](std::optional<Number> before) {
    return before && before->kind() == plain.kind() && before->word() != plain.word() &&
           (before->is_symbolic() || !is_meant_otherwise(*before));
  };
  return (earlier_ && is_another(earlier_(place))) || is_another(turns_.other_number(place, plain));
}

void BodyNumbers::lift(uint32_t step, const OpEntry& op, std::span<Value> args,
                       ArgumentLists& lists) {
  if (is_paused || (!wanted_ && !earlier_ && turns_.are_none())) return;
  for (uint32_t a = 0; a < args.size() && a < op.schema.args.size(); ++a) {
    if (!may_be_symbol(op.schema.args[a])) continue;
    Value& arg = args[a];
    NumberPlace place{step, op.id, a, -1};
    if (arg.is_number()) arg = Value::of(lifted(arg.number(), place));
    for (uint32_t k = 0; arg.tag == Tag::ints && k < arg.count; ++k) {
      place.element = static_cast<int32_t>(k);
      SymInt given = arg.as<SymInt>()[k], own = lifted(given, place).sym_int();
      if (own.word() == given.word()) continue;
      auto& list = lists.numbers.emplace_back(arg.as<SymInt>(), arg.as<SymInt>() + arg.count);
      list[k] = own;
      arg = Value::of(SymIntList(List<SymInt>(list)));
    }
  }
}

// Sizes do not change by themselves.
bool BodyNumbers::is_of_numbers(const Expr* expr) const {
  return std::ranges::any_of(free_symbols(expr), [&](const Expr* symbol) {
    const SymbolSource& source = env_.info(symbol).source;
    return source.kind == SymbolSource::Kind::input_value ||
           (source.kind == SymbolSource::Kind::body_number &&
            !given.places[source.index].is_size());
  });
}

void BodyNumbers::expect(std::span<const double> plain, std::span<const Number> arguments) {
  for (double number : plain) note_value(number);
  for (Number number : arguments)
    if (number.is_symbolic()) note_value(number);
}

// Many operations get a 0 or 1 for reasons of their own.
void BodyNumbers::note_value(Number number) {
  const Expr* expr = expression_of(number);
  std::optional<SymValue> value = env_.hint(expr);
  if (!value || (number.is_symbolic() && !is_of_numbers(expr))) return;
  bool is_floating = value->kind == ExprKind::real;
  if (is_floating || std::abs(value->integer()) > 1)
    values_.emplace(is_floating, static_cast<uint64_t>(value->word));
}

// A symbol for a number that changes; others stay what they are.
Number BodyNumbers::lifted(Number number, const NumberPlace& place) {
  bool is_plain = !number.is_symbolic();
  if (is_plain && !is_wanted(number, place)) return number;
  Number symbol = is_plain ? symbol_for(number, place) : number;
  // Sizes, indices and bounds are equal for many reasons.
  if (symbol.is_symbolic() && !is_place(place)) note_value(symbol);
  return is_plain ? symbol : turns_.named(place, symbol);
}

bool BodyNumbers::is_wanted_size(int64_t size, const NumberPlace& place) const {
  if (wanted_ && wanted_->contains(place)) return true;
  std::optional<Number> before = earlier_ ? earlier_(place) : std::nullopt;
  return before && before->word() != size;
}

Dims BodyNumbers::sizes_of(const Tensor& captured, uint32_t slot, uint32_t step) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  Dims sizes = meta_of(captured).sizes;
  bool is_parameter = captured.requires_grad() && captured.is_leaf();
  if ((!wanted_ && !earlier_) || !flags.automatic_dynamic_shapes ||
      (is_parameter && flags.force_parameter_static_shapes))
    return sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    NumberPlace place{step, NumberPlace::of_size, slot, static_cast<int32_t>(d)};
    int64_t size = captured.head()->sizes[d];
    if (is_wanted_size(size, place)) sizes[d] = size_symbol(size, place);
  }
  return sizes;
}

SymInt BodyNumbers::size_symbol(int64_t size, const NumberPlace& place) {
  const config::ShapesFlags& flags = config::flags().shapes;
  for (auto [known, number] : size_symbols_) {
    if (given.words[number] != size || !flags.use_duck_shape) continue;
    given.shared_sizes.push_back({place, number});
    return known;
  }
  return new_size_symbol(size, place);
}

SymInt BodyNumbers::new_size_symbol(int64_t size, const NumberPlace& place) {
  auto number = static_cast<uint32_t>(given.places.size());
  SymbolSource source{SymbolSource::Kind::body_number, number, 0};
  SymbolOptions options{.policy = SymbolPolicy::own,
                        .specialize_one = config::flags().shapes.specialize_one};
  SymInt symbol = env_.create_symbol(
      size, source, message("size {} of captured tensor {}", place.element, place.arg), options);
  if (!symbol.is_symbolic()) return symbol;  // 0 and 1 are constants
  given.places.push_back(place);
  given.words.push_back(size);
  size_symbols_.emplace_back(symbol, number);
  return symbol;
}

Number BodyNumbers::symbol_for(Number plain, const NumberPlace& place) {
  if (place.is_size()) return new_size_symbol(plain.to_int(), place);
  auto index = static_cast<uint32_t>(given.places.size());
  SymbolSource source{SymbolSource::Kind::body_number, index, 0};
  std::string text = message("number {} of operation {}", place.arg, place.step);
  given.places.push_back(place);
  given.words.push_back(plain.word());
  if (plain.is_floating()) return env_.create_float(plain.to_double(), source, text);
  SymInt symbol = env_.create_symbol(plain.to_int(), source, text, SymbolOptions::for_number());
  if (is_place(place)) static_cast<void>(bool(symbol >= 0));
  return symbol;
}

bool keep_conditions(std::span<const Expr* const> conditions,
                     const std::shared_ptr<const ShapeEnv>& from, Recording& recording) {
  if (conditions.empty()) return true;
  const ShapeEnv& env = *recording.shape_env;
  Renamed renamed(*from, env);
  std::vector<const Expr*> symbols = argument_symbols(env);
  return std::ranges::all_of(conditions, [&](const Expr* condition) {
    const Expr* mine = renamed(condition);
    return mine && recording.guards.add_number_condition(env, symbols, mine);
  });
}

}  // namespace tenon
