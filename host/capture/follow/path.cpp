// Paths out of recordings.
#include "capture/follow/path.h"

#include "capture/follow/frame.h"
#include "capture/follow/path_units.h"
#include "capture/renamed.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "graph/hash.h"
#include "graph/passes/view_root.h"
#include "graph/symbol_use.h"
#include "ops/forms/history.h"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <set>

namespace tenon {

namespace {

std::atomic<uint64_t> next_path{0};

bool lie_alike(const GraphValue& a, const GraphValue& b) {
  auto same = [](const Dims& x, const Dims& y) {
    return std::ranges::equal(x, y, {}, &SymInt::word, &SymInt::word);
  };
  return same(a.meta.sizes, b.meta.sizes) && same(a.meta.strides, b.meta.strides) &&
         a.offset.word() == b.offset.word();
}

// Of operations that lay their argument out anew; resize_ may give it other memory.
bool keeps_memory(OpId op) {
  static constexpr OpId ops[] = {OpId::aten_t__default,         OpId::aten_transpose__default,
                                 OpId::aten_swapaxes__default,  OpId::aten_squeeze__default,
                                 OpId::aten_squeeze__dim,       OpId::aten_squeeze__dims,
                                 OpId::aten_unsqueeze__default, OpId::aten_as_strided__default};
  return std::ranges::find(ops, op) != std::end(ops);
}

// The result is an object that was there before, but not as it was. Where the same graph has made the
// object, over memory that stays, its fake lies anew.
bool changes_object(const Graph& graph, std::span<const ValueId> values_before, const Node& node,
                    uint32_t result) {
  ValueId value = node.first_result + result, previous = values_before[value];
  if (previous == no_value) return false;
  const OpEntry& op = entry_of(node.op);
  if (node.n_results != 1 || op.schema.returns_list()) return true;
  const GraphValue &before = graph.value(previous), &after = graph.value(value);
  if (before.meta.dtype != after.meta.dtype) return true;
  if (lie_alike(before, after)) return false;
  ValueId first = previous;
  while (values_before[first] != no_value) first = values_before[first];
  return graph.value(first).source != ValueSource::node || !keeps_memory(node.op);
}

bool has_body_or_object(const Node& node) {
  return std::ranges::any_of(
      node.args, [](const Value& a) { return a.tag == Tag::graph || a.tag == Tag::opaque; });
}

std::string why_not_part(const Graph& graph, std::span<const ValueId> values_before) {
  if (!graph.constants().empty()) return "it has constants";
  for (const Node& node : graph.nodes()) {
    const OpEntry& op = entry_of(node.op);
    if (has_body_or_object(node)) return message("{} has a body of its own", op.name);
    if (node.facts.contains("recompute")) return "it has checkpointed regions";
    for (uint32_t r = 0; r < node.n_results; ++r) {
      if (changes_object(graph, values_before, node, r))
        return message("{} changes what its argument is", op.name);
      if (ValueKind kind = graph.value(node.first_result + r).kind;
          kind != ValueKind::tensor && kind != ValueKind::none)
        return message("{} reads a number from data", op.name);
    }
  }
  return "";
}

}  // namespace

bool is_assertion(const Node& node) {
  auto names_none = [](const Value& a) { return a.tag != Tag::ref && a.tag != Tag::refs; };
  return node.n_results == 0 && std::ranges::all_of(node.args, names_none);
}

// Whether each number of the body has gone into an operation. One that fails is given its numbers, too,
// and is no step.
static bool has_step_for_each_number(const Recording& recording) {
  std::vector<OpId> steps;
  auto add = [&](const Graph& graph) {
    for (const Node& node : graph.nodes())
      if (!is_assertion(node)) steps.push_back(node.op);
  };
  if (!recording.has_graph_breaks()) add(*recording.graph);
  for (const Segment& segment : recording.segments) add(*segment.graph);
  std::set<NumberPlace> places;
  return std::ranges::all_of(recording.given.places, [&](const NumberPlace& place) {
    return place.is_size() || (place.step < steps.size() && steps[place.step] == place.op &&
                               places.insert(place).second);
  });
}

std::string Path::why_not(const Recording& recording) {
  if (!recording.log_calls.empty()) return "it calls log functions";
  if (!recording.why_not_followed.empty()) return recording.why_not_followed;
  for (const SymbolInfo& symbol : recording.shape_env->symbols())
    if (!symbol.is_from_input()) return "a size depends on data";
  if (!has_step_for_each_number(recording)) return "an operation fails that is given a number";
  if (!recording.has_graph_breaks()) return why_not_part(*recording.graph, recording.values_before);
  for (const Segment& segment : recording.segments) {
    if (std::string why = why_not_part(*segment.graph, segment.values_before); !why.empty())
      return why;
    Renamed renamed(*segment.graph->shape_env, *recording.shape_env);
    for (const SymbolBinding& b : segment.graph->symbols)
      if (!renamed(b.symbol)) return "sizes are not as different as in an earlier segment";
  }
  return "";
}

Path::Path(const Recording& recording)
    : n_slots_(recording.implicit.size()),
      number_(next_path.fetch_add(1, std::memory_order_relaxed)) {
  if (!recording.has_graph_breaks()) add_part(recording, nullptr);
  for (const Segment& segment : recording.segments) add_part(recording, &segment);
  keep_last_uses();
  add_arguments(recording.guards);
  add_numbers(recording);
  keep_units_without_numbers();
  frames_ = std::make_unique<FrameStore>(*this, recording);
}

Path::~Path() = default;

// ---- making it

void Path::add_part(const Recording& recording, const Segment* segment) {
  auto number = static_cast<uint32_t>(parts_.size());
  Part& part = parts_.emplace_back();
  part.graph = segment ? segment->graph : recording.graph;
  part.segment = segment;
  part.hooked = autograd::hooked_values(*part.graph);
  part.functions = autograd::ends_of_functions(*part.graph);
  part.first_value = static_cast<ValueId>(object_of_.size());
  part.first_step = steps_.size();
  object_of_.resize(object_of_.size() + part.graph->values().size(), no_object);
  numbers_of_values_.resize(object_of_.size(), no_value);
  add_inputs(part, segment ? segment->inputs : recording.inputs);
  part.first_object = static_cast<uint32_t>(objects_.size());
  add_steps(part, number, segment ? segment->values_before : recording.values_before,
            recording.grads_on);
  part.end_step = steps_.size();
  part.end_object = static_cast<uint32_t>(objects_.size());
  add_units(part, segment ? segment->units : recording.units);
  for (size_t k = 0; segment && k < segment->n_outputs; ++k) {
    uint32_t object = object_of_[part.first_value + part.graph->outputs()[k]];
    part.outputs.push_back(object);
    outputs_.push_back(object);
  }
  if (segment && segment->looked_at != no_value)
    part.looked_at = part.first_value + segment->looked_at;
  add_last_uses(part);
}

// What the part reads, and what the one before has left and nothing has read.
void Path::add_last_uses(Part& part) {
  auto add = [&](std::span<const uint32_t> objects) {
    for (uint32_t o : objects) {
      bool may_go = o != no_object && objects_[o].origin.kind != ValueOrigin::Kind::leaf;
      if (may_go && std::ranges::find(part.last_uses, o) == part.last_uses.end())
        part.last_uses.push_back(o);
    }
  };
  add(part.inputs);
  if (parts_.size() > 1) add(parts_[parts_.size() - 2].outputs);
}

void Path::keep_last_uses() {
  std::vector<bool> is_used_later(objects_.size(), false);
  for (Part& part : std::views::reverse(parts_)) {
    std::erase_if(part.last_uses, [&](uint32_t o) { return is_used_later[o]; });
    for (uint32_t o : part.last_uses) is_used_later[o] = true;
  }
}

// Inputs that earlier parts know go on with the value that they have by now.
void Path::add_inputs(Part& part, std::span<const ValueOrigin> origins) {
  std::span<const ValueId> inputs = part.graph->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    uint32_t object = no_object;
    if (part.graph->value(inputs[i]).kind == ValueKind::tensor) {
      ValueId value = part.first_value + inputs[i];
      object = origins[i].kind == ValueOrigin::Kind::graph ? outputs_[origins[i].index]
                                                           : object_at(origins[i]);
      if (object == no_object) {
        object = static_cast<uint32_t>(objects_.size());
        objects_.push_back({value, origins[i], 0});
        current_.push_back(value);
        by_origin_.try_emplace({origins[i].kind, origins[i].index}, object);
      }
      object_of_[value] = object;
      numbers_of_values_[value] = current_[object];
      part.has_other_needs |= part.graph->value(inputs[i]).flags.requires_grad !=
                              this->value(current_[object]).flags.requires_grad;
    }
    part.inputs.push_back(object);
  }
}

void Path::add_steps(const Part& part, uint32_t number, std::span<const ValueId> values_before,
                     const std::vector<bool>& grads_on) {
  const Graph& graph = *part.graph;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.node(n);
    if (is_assertion(node)) continue;
    int32_t in_place = -1;
    for (ValueId v = node.first_result; v < node.first_result + node.n_results; ++v) {
      ValueId value = part.first_value + v;
      bool is_new = values_before[v] == no_value;
      uint32_t object = is_new ? static_cast<uint32_t>(objects_.size())
                               : object_of_[part.first_value + values_before[v]];
      if (is_new) {
        objects_.push_back({value, {}, 0});
        current_.push_back(value);
      } else {
        in_place = static_cast<int32_t>(object);
        objects_[object].is_reshaped |= !lie_alike(graph.value(values_before[v]), graph.value(v));
      }
      object_of_[value] = object;
      numbers_of_values_[value] = current_[object] = value;
    }
    bool grad =
        n < grads_on.size() ? grads_on[n] : is_grad_enabled_at(node, thread_modes.grad_enabled);
    steps_.push_back({&entry_of(node.op), number, n, static_cast<uint32_t>(n_args_),
                      static_cast<uint32_t>(node.args.size()), part.first_value + node.first_result,
                      node.n_results, in_place, grad});
    n_args_ += node.args.size();
    if (grads_on.empty() && grad) add_written_inputs(part, node, values_before);
    if (in_place >= 0)
      add_given_histories(graph, part.first_value, values_before, node.first_result);
  }
}

static ViewRoot root_in(const Graph& graph, std::span<const ValueId> values_before, ValueId v) {
  auto share_memory = [&](ValueId a, ValueId b) {
    uint32_t group = graph.value(a).alias_group;
    return group && group == graph.value(b).alias_group;
  };
  return view_root({graph, values_before, thread_modes.grad_enabled, share_memory}, v);
}

// By the last step, where it is the first that gives the object a history which it writes: as the
// recorder does.
void Path::add_given_histories(const Graph& graph, ValueId first,
                               std::span<const ValueId> values_before, ValueId written) {
  auto needs = [&](ValueId v) { return graph.value(v).flags.requires_grad; };
  const ValueId before = values_before[written];
  if (before == no_value || needs(before) || !needs(written)) return;
  const uint32_t group = graph.value(written).alias_group;
  auto root_of = [&](ValueId v) { return root_in(graph, values_before, v).value; };
  const ValueId root = root_of(written);
  for (ValueId v = 0; group && v < written; ++v) {
    uint32_t object = object_of_[first + v];
    bool is_relative = object != no_object && graph.value(v).alias_group == group &&
                       is_differentiable(graph.value(v).meta.dtype) && root_of(v) == root;
    if (is_relative) given_histories_.push_back({static_cast<uint32_t>(steps_.size() - 1), object});
  }
}

// By the last step.
void Path::add_written_inputs(const Part& part, const Node& node,
                              std::span<const ValueId> values_before) {
  const OpEntry& op = entry_of(node.op);
  if (!op.mutated_args || forgets_history(op)) return;
  const Graph& graph = *part.graph;
  auto add = [&](ValueId v) {
    if (!is_differentiable(graph.value(v).meta.dtype) ||
        was_written_with_grad(graph, values_before, thread_modes.grad_enabled, v))
      return;
    ViewRoot root = root_in(graph, values_before, v);
    uint32_t object = object_of_[part.first_value + root.value];
    if (graph.value(root.value).source != ValueSource::input || object == no_object) return;
    auto is_known = [&](const WrittenInput& known) {
      return known.step >= part.first_step && known.object == object &&
             known.is_view == root.is_view;
    };
    if (std::ranges::none_of(written_inputs_, is_known))
      written_inputs_.push_back({steps_.size() - 1, object, root.is_view});
  };
  for (size_t i = 0; i < node.args.size() && i < 64; ++i)
    if (op.mutated_args >> i & 1) for_each_value(node.args[i], add);
}

void Path::add_units(const Part& part, std::span<const RecordedUnit> units) {
  for (const RecordedUnit& recorded : units)
    if (std::optional<Unit> unit = unit_of(*this, part, recorded))
      units_.push_back(std::move(*unit));
}

// What the body gives in a unit has to be looked at.
void Path::keep_units_without_numbers() {
  std::erase_if(units_, [&](const Unit& unit) {
    return std::ranges::any_of(numbers_, [&](const BodyNumber& number) {
      return number.place.step >= unit.first_step && number.place.step < unit.end_step;
    });
  });
}

void Path::add_arguments(const GuardSet& guards) {
  for (uint32_t leaf = 0; leaf < guards.tensors.size(); ++leaf) {
    uint32_t first = guards.same_as.empty() ? leaf : guards.same_as[leaf];
    uint32_t object = object_at({ValueOrigin::Kind::leaf, first});
    if (object != no_object) ++objects_[object].n_arguments;
    argument_objects_.push_back(object);
  }
}

void Path::add_numbers(const Recording& recording) {
  const GuardSet& guards = recording.guards;
  for (uint32_t i = 0; i < recording.given.places.size(); ++i) {
    const NumberPlace& place = recording.given.places[i];
    auto load = std::ranges::find_if(guards.loads, [&](const SymbolLoad& l) {
      return l.kind == SymbolLoad::Kind::body && l.index == i;
    });
    BodyNumber number{place, no_arg, static_cast<uint32_t>(load - guards.loads.begin()),
                      Tag::integer, recording.given.words[i]};
    if (!place.is_size()) {
      const Step& step = steps_[place.step];
      const Value& arg = args_of(step)[place.arg];
      number.arg = step.first_arg + place.arg;
      if (arg.tag != Tag::ints) number.kind = arg.tag;
    }
    numbers_.push_back(number);
  }
  if (numbers_.empty()) return;
  numbers_before_.resize(steps_.size() + 1);
  for (const BodyNumber& number : numbers_)
    if (number.place.step < steps_.size()) ++numbers_before_[number.place.step + 1];
  std::partial_sum(numbers_before_.begin(), numbers_before_.end(), numbers_before_.begin());
}

// ---- asking it

const Path::Unit* Path::unit_at(size_t step) const {
  auto at = std::ranges::lower_bound(units_, step, {}, &Unit::first_step);
  return at != units_.end() && at->first_step == step ? &*at : nullptr;
}

size_t Path::part_of(ValueId value) const {
  auto next = std::ranges::upper_bound(parts_, value, {}, &Part::first_value);
  return static_cast<size_t>(next - parts_.begin()) - 1;
}

const GraphValue& Path::value(ValueId value) const {
  const Part& part = parts_[part_of(value)];
  return part.graph->value(value - part.first_value);
}

uint32_t Path::object_at(ValueOrigin origin) const {
  auto found = by_origin_.find({origin.kind, origin.index});
  bool is_known = origin.kind != ValueOrigin::Kind::undefined && found != by_origin_.end();
  return is_known ? found->second : no_object;
}

ValueId Path::values_before(size_t n) const {
  if (n > 0) return steps_[n - 1].first_result + steps_[n - 1].n_results;
  return static_cast<ValueId>(std::ranges::count_if(
      objects_, [](const Object& o) { return o.origin.kind == ValueOrigin::Kind::leaf; }));
}

std::optional<Number> Path::number_at(const NumberPlace& place) const {
  if (place.is_size()) {
    uint32_t object = object_at({ValueOrigin::Kind::implicit, place.arg});
    if (object == no_object) return std::nullopt;
    const Dims& sizes = value(objects_[object].value).meta.sizes;
    bool is_known = static_cast<size_t>(place.element) < sizes.size() &&
                    !sizes[static_cast<size_t>(place.element)].is_symbolic();
    return is_known ? std::optional<Number>(sizes[static_cast<size_t>(place.element)])
                    : std::nullopt;
  }
  if (place.step >= steps_.size() || steps_[place.step].op->id != place.op) return std::nullopt;
  const Value& arg = args_of(steps_[place.step])[place.arg];
  Number found;
  if (place.element < 0 && arg.is_number())
    found = arg.number();
  else if (arg.tag == Tag::ints && static_cast<uint32_t>(place.element) < arg.count)
    found = arg.as<SymInt>()[place.element];
  else
    return std::nullopt;
  return found.is_symbolic() ? std::nullopt : std::optional(found);
}

size_t Path::numbers_before(size_t n) const {
  return n < numbers_before_.size() ? numbers_before_[n] : numbers_.size();
}

// ---- two paths

namespace {

// Symbols of two recordings stand for the same where they have the same source.
bool same_number(Number a, const ShapeEnv& env_a, Number b, const ShapeEnv& env_b) {
  if (a.kind() != b.kind() || a.is_symbolic() != b.is_symbolic()) return false;
  if (!a.is_symbolic()) return a.word() == b.word();
  return env_a.source_text(expression_of(a)) == env_b.source_text(expression_of(b));
}

bool same_arg(const Value& a, const ShapeEnv& env_a, const Value& b, const ShapeEnv& env_b) {
  if (!a.is_symbolic() || !b.is_symbolic()) return same_argument(a, b);
  if (a.tag != b.tag || a.count != b.count) return false;
  if (a.is_number()) return same_number(a.number(), env_a, b.number(), env_b);
  for (uint32_t i = 0; i < a.count; ++i)
    if (!same_number(a.as<SymInt>()[i], env_a, b.as<SymInt>()[i], env_b)) return false;
  return true;
}

bool same_part(const Path& a, const Path& b, size_t part) {
  const Path::Part &x = a.parts()[part], &y = b.parts()[part];
  return x.first_value == y.first_value && x.first_step == y.first_step;
}

bool same_step(const Path& a, const Path& b, size_t n) {
  const Path::Step &x = a.steps()[n], &y = b.steps()[n];
  if (x.op != y.op || x.part != y.part || x.n_args != y.n_args ||
      x.first_result != y.first_result || x.n_results != y.n_results || x.grad != y.grad ||
      !same_part(a, b, x.part))
    return false;
  std::span<const Value> args = a.args_of(x), others = b.args_of(y);
  const ShapeEnv &env = *a.parts()[x.part].graph->shape_env,
                 &other_env = *b.parts()[x.part].graph->shape_env;
  for (size_t i = 0; i < args.size(); ++i)
    if (!same_arg(args[i], env, others[i], other_env)) return false;
  return true;
}

// Whether a value is the same tensor of the body in both.
bool same_value(const Path& a, const Path& b, ValueId v) {
  const GraphValue &x = a.value(v), &y = b.value(v);
  if (x.source != y.source || x.kind != y.kind) return false;
  if (x.source != ValueSource::input || x.kind != ValueKind::tensor) return true;
  const Path::Object &p = a.objects()[a.object_of(v)], &q = b.objects()[b.object_of(v)];
  return p.value == q.value && p.origin.kind == q.origin.kind && p.origin.index == q.origin.index;
}

}  // namespace

size_t Path::shared_steps(const Path& other) const {
  std::lock_guard lock(shared_steps_lock_);
  constexpr size_t most_kept = 1024;
  if (shared_steps_.size() > most_kept) shared_steps_.clear();
  auto [known, is_new] = shared_steps_.try_emplace(other.number_);
  if (is_new) known->second = count_shared_steps(other);
  return known->second;
}

size_t Path::count_shared_steps(const Path& other) const {
  size_t n = 0;
  ValueId value = 0;
  for (; n < std::min(steps_.size(), other.steps_.size()); ++n) {
    if (!same_step(*this, other, n)) break;
    for (; value < steps_[n].first_result + steps_[n].n_results; ++value)
      if (!same_value(*this, other, value)) return n;
  }
  return n;
}

}  // namespace tenon
