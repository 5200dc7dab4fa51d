// Which segments go on alike.
#include "capture/earlier_turns.h"

#include "capture/follow/path.h"
#include "config/flags.h"
#include "core/sym/shape_env.h"
#include "graph/symbol_use.h"

#include <algorithm>
#include <ranges>

namespace tenon {

namespace {

// How many looks at data a turn of a loop may have.
constexpr size_t most_segments = 64;

std::optional<Number> number_in(const Value& arg, int32_t element) {
  if (element < 0) return arg.is_number() ? std::optional(arg.number()) : std::nullopt;
  auto at = static_cast<uint32_t>(element);
  if (arg.tag != Tag::ints || at >= arg.count) return std::nullopt;
  return Number(arg.as<SymInt>()[at]);
}

// What node `n` has there, if it is the operation of the place.
std::optional<Number> number_at(const Graph& graph, NodeId n, const NumberPlace& place) {
  if (n >= graph.nodes().size()) return std::nullopt;
  const Node& node = graph.node(n);
  if (node.op != place.op || place.arg >= node.args.size()) return std::nullopt;
  return number_in(node.args[place.arg], place.element);
}

bool has_operations_of(const Graph& a, const Graph& b) {
  auto operations = [](const Graph& graph) {
    return graph.nodes() |
           std::views::filter([](const Node& node) { return !is_assertion(node); }) |
           std::views::transform(&Node::op);
  };
  return std::ranges::equal(operations(a), operations(b));
}

bool is_of_body(const Graph& graph, Number n) {
  return std::ranges::any_of(graph.shape_env->symbols(), [n](const SymbolInfo& symbol) {
    return symbol.expr == expression_of(n) && symbol.source.kind == SymbolSource::Kind::body_number;
  });
}

}  // namespace

// A symbol of its own for a number that is known; 0 and 1 stay what they are, but for offsets.
SymInt EarlierTurns::name_of(SymInt number, bool is_offset) {
  const Expr* known = env_.spelled_out(as_expr(number));
  auto [at, is_new] = names_.try_emplace({known, is_offset}, number);
  if (!is_new) return at->second;
  SymbolOptions options{.policy = SymbolPolicy::own, .stands_for = known};
  options.specialize_zero = options.specialize_one = !is_offset;
  SymInt name = env_.create_symbol(*env_.int_hint(number), {SymbolSource::Kind::named_value},
                                   env_.source_text(known), options);
  return at->second = name.is_symbolic() ? name : number;
}

void EarlierTurns::skip_assertions(Turn& turn) {
  while (turn.next < turn.graph->nodes().size() && is_assertion(turn.graph->node(turn.next)))
    ++turn.next;
}

void EarlierTurns::add(std::shared_ptr<const Graph> segment) {
  names_.clear();
  if (!looks_) return;
  if (segments_.size() == most_segments) segments_.erase(segments_.begin());
  segments_.push_back(std::move(segment));
  alike_.clear();
  for (size_t i = 0; i < segments_.size(); ++i) {
    bool repeats = i > 0 && has_operations_of(*segments_[i - 1], *segments_.back());
    skip_assertions(alike_.emplace_back(segments_[i], repeats));
  }
}

void EarlierTurns::pass(const Node& node) {
  if (alike_.empty() || is_assertion(node)) return;
  std::erase_if(alike_, [&](Turn& turn) {
    bool is_alike =
        turn.next < turn.graph->nodes().size() && turn.graph->node(turn.next).op == node.op;
    ++turn.next;
    skip_assertions(turn);
    return !is_alike;
  });
}

// `number_of(value)`: what the value of an earlier turn has in the number's place, if anything.
template <class F>
bool EarlierTurns::is_other_in_turn(size_t input, SymInt number, F number_of) const {
  return std::ranges::any_of(alike_, [&](const Turn& turn) {
    const Graph& graph = *turn.graph;
    if (!turn.repeats || turn.next >= graph.nodes().size() || input >= graph.inputs().size() ||
        graph.node(turn.next).op != expected_)
      return false;
    std::optional<SymInt> before = number_of(graph.value(graph.inputs()[input]));
    return before && before->word() != number.word();
  });
}

void EarlierTurns::name_sizes(Dims& sizes, size_t input) {
  if (alike_.empty() || !config::flags().dynamo.automatic_dynamic_shapes) return;
  for (size_t d = 0; d < sizes.size(); ++d) {
    auto size_of = [d](const GraphValue& value) {
      const Dims& before = value.meta.sizes;
      return d < before.size() ? std::optional(before[d]) : std::nullopt;
    };
    if (env_.int_hint(sizes[d]) && is_other_in_turn(input, sizes[d], size_of))
      sizes[d] = name_of(sizes[d]);
  }
}

SymInt EarlierTurns::named_offset(SymInt offset, size_t input) {
  if (alike_.empty() || !config::flags().dynamo.automatic_dynamic_shapes) return offset;
  auto offset_of = [](const GraphValue& value) { return std::optional(value.offset); };
  bool is_named = env_.int_hint(offset) && is_other_in_turn(input, offset, offset_of);
  return is_named ? name_of(offset, true) : offset;
}

Number EarlierTurns::named(const NumberPlace& place, Number number) {
  if (alike_.empty() || !number.is_symbolic() || !number.is_integer() ||
      !config::flags().dynamo.automatic_dynamic_shapes || !env_.int_hint(number.sym_int()))
    return number;
  bool is_another = std::ranges::any_of(alike_, [&](const Turn& turn) {
    std::optional<Number> before = number_at(*turn.graph, turn.next, place);
    return turn.repeats && before && before->word() != number.word();
  });
  return is_another ? Number(name_of(number.sym_int())) : number;
}

std::optional<Number> EarlierTurns::other_number(const NumberPlace& place, Number plain) const {
  for (const Turn& turn : alike_) {
    std::optional<Number> number = number_at(*turn.graph, turn.next, place);
    bool is_another = number && (number->is_symbolic() ? is_of_body(*turn.graph, *number)
                                                       : number->word() != plain.word());
    if (is_another) return number;
  }
  return std::nullopt;
}

}  // namespace tenon
