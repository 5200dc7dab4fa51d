// When to verify, and what to compare.
#include "runtime/verify.h"

#include "capture/trace.h"
#include "config/flags.h"
#include "core/error.h"
#include "graph/hash.h"
#include "guards/tensor_numbers.h"
#include "ops/op_table.h"
#include "report/log.h"
#include "runtime/limits.h"

#include <algorithm>
#include <bit>

namespace tenon {

using detail::Leaves;
using detail::Site;

namespace {

bool is_power_of_four(uint64_t n) { return std::has_single_bit(n) && std::countr_zero(n) % 2 == 0; }

// The next hit that may be due; flags are asked again after a thousand hits at the latest.
uint64_t next_check_after(uint64_t hit, uint64_t every) {
  uint64_t later = hit + 1000;
  if (!every) return later;
  uint64_t power = std::bit_ceil(hit + 1);
  if (!is_power_of_four(power)) power *= 2;
  return std::min({power, later, (hit / every + 1) * every});
}

// Different symbols of the entry have one value here, so that a new recording shares a symbol
// between them: its graph says nothing about the entry's.
bool symbols_coincide(const Entry& entry, const Leaves& leaves) {
  const GuardSet& guards = entry.recorded.guards;
  std::vector<int64_t> words(guards.loads.size());
  guards.load(leaves, words.data());
  std::ranges::sort(words);
  return std::ranges::adjacent_find(words) != words.end();
}

// Captured tensors and arguments of the entry that are one tensor in this call: a new recording
// takes them for one.
bool tensors_coincide(const Entry& entry, const Leaves& leaves) {
  TensorNumbers known;
  known.restart(leaves.tensors.size() + entry.recorded.implicit.size() + 1);
  for (const Tensor* t : leaves.tensors.span())
    if (t->defined()) known.add(*t);
  for (const ImplicitInput& in : entry.recorded.implicit) {
    const Tensor& t = in.address ? *in.address : in.tensor;
    size_t number = known.size();
    if (t.defined() && known.add(t) != number) return true;
  }
  return false;
}

}  // namespace

bool is_due_at(const Site& site, Entry& entry, uint64_t hit, const Leaves& leaves) {
  config::OptionScope options(site.flags);
  const config::CaptureFlags& flags = config::flags().capture;
  auto every = static_cast<uint64_t>(flags.retrace_check);
  entry.next_check.store(next_check_after(hit, every), std::memory_order_relaxed);
  bool due = every && (is_power_of_four(hit) || hit % every == 0);
  return due && flags.mode != "hit" && !symbols_coincide(entry, leaves) &&
         !tensors_coincide(entry, leaves);
}

namespace {

// The first captured tensor that is another one than the code would get; -1: there is none. That a
// tensor was let go of is seen at each hit.
int64_t other_captured(const Recording& found, const Recording& recorded) {
  size_t n = std::min(found.implicit.size(), recorded.implicit.size());
  for (size_t i = 0; i < n; ++i) {
    const ImplicitInput& in = recorded.implicit[i];
    if (in.source == ImplicitInput::Source::gradient) continue;
    const Tensor& known = in.address ? *in.address : in.tensor;
    if (!found.implicit[i].tensor.is_same(known)) return static_cast<int64_t>(i);
  }
  return -1;
}

// Marks of memory do not count: code that was made for one serves tensors without it, and the other
// way round.
bool compute_same(const Graph& found, const Graph& recorded) {
  if (structurally_equal(recorded, found)) return true;
  if (found.inputs().size() != recorded.inputs().size()) return false;
  std::shared_ptr<Graph> alike = clone(found);
  for (size_t i = 0; i < recorded.inputs().size(); ++i)
    alike->value(alike->inputs()[i]).flags.static_address =
        recorded.value(recorded.inputs()[i]).flags.static_address;
  return structurally_equal(recorded, *alike);
}

}  // namespace

bool is_same(const Recording& found, const Recording& recorded) {
  if (other_captured(found, recorded) >= 0) return false;
  if (found.has_graph_breaks() || found.plain_results != recorded.plain_results ||
      found.outputs != recorded.outputs || found.gradients != recorded.gradients ||
      found.log_calls != recorded.log_calls)
    return false;
  if (!found.graph || !recorded.graph) return !found.graph && !recorded.graph;
  return compute_same(*found.graph, *recorded.graph);
}

namespace {

// The first argument that differs, with both values where they are numbers.
std::string argument_difference(const Node& found, const Node& recorded) {
  const Schema& schema = entry_of(found.op).schema;
  for (size_t i = 0; i < found.args.size(); ++i) {
    const Value &now = found.args[i], &then = recorded.args[i];
    bool are_symbolic = now.is_symbolic() && then.is_symbolic();  // of two environments
    if (are_symbolic || same_argument(now, then)) continue;
    const std::string& name = schema.args[i].name;
    if (!now.is_number() || !then.is_number()) return message("{} is another one", name);
    return message("{} is {}, recorded was {}", name, now.number(), then.number());
  }
  return "";
}

// "captured tensor 0 (f32[2, 3], first used by operation 0, aten.linear at net.cpp:12) is another one"
std::string captured_difference(const Recording& found, size_t slot) {
  const Graph& graph = *found.graph;
  auto is_it = [&](const ValueOrigin& in) {
    return in.kind == ValueOrigin::Kind::implicit && in.index == slot;
  };
  size_t input =
      static_cast<size_t>(std::ranges::find_if(found.inputs, is_it) - found.inputs.begin());
  std::string user;
  if (input < graph.inputs().size())
    if (auto users = graph.users()[graph.inputs()[input]]; !users.empty()) {
      const Node& node = graph.node(users[0]);
      user = message(", first used by operation {}, {}{}", users[0], name_of(node.op),
                     at_place(node.where));
    }
  const Tensor& t = found.implicit[slot].tensor;
  return message("captured tensor {} ({}{}{}) is another one", slot, to_text(t.dtype()),
                 to_text(t.sizes()), user);
}

// The first operation that differs, for people.
std::string first_difference(const Recording& found, const Recording& recorded) {
  if (found.has_graph_breaks()) return "it looks at data: " + found.break_reason;
  if (!found.graph || !recorded.graph) return "it has other operations";
  if (int64_t slot = other_captured(found, recorded); slot >= 0)
    return captured_difference(found, static_cast<size_t>(slot));
  const auto &now = found.graph->nodes(), &then = recorded.graph->nodes();
  for (size_t i = 0; i < std::max(now.size(), then.size()); ++i) {
    if (i == now.size()) return message("it ends after {} of {} operations", i, then.size());
    const Node& node = found.graph->node(static_cast<NodeId>(i));
    std::string where = message("operation {}, {}{}", i, name_of(node.op), at_place(node.where));
    if (i == then.size()) return message("{}, where the recorded body ends", where);
    const Node& other = recorded.graph->node(static_cast<NodeId>(i));
    if (node.op != other.op) return message("{}: recorded was {}", where, name_of(other.op));
    std::string difference = argument_difference(node, other);
    if (!difference.empty()) return message("{}: {}", where, difference);
  }
  return found.plain_results != recorded.plain_results ? "plain values of its result are others"
                                                       : "its results are others";
}

std::string compiled_at(const Site& site) {
  const std::source_location& where = site.options.where;
  return where.line() ? message(", compiled at {},", user_location(where)) : "";
}

}  // namespace

void report_stale(Site& site, const Recording& found, const Recording& recorded) {
  if (site.was_stale.exchange(true)) return;
  std::string_view advice =
      other_captured(found, recorded) >= 0
          ? "its handle lies where calls that leave the body out do not look; capture the handle "
            "itself by reference, or pass it as an argument"
          : "it reads a value that is not an argument; pass it as one";
  std::string text = message(
      "callable {}{} did something else than when it was recorded, with equal arguments ({}): {}, "
      "or leave out Options::pure. From now on the body runs on every call",
      display_name(site), compiled_at(site), first_difference(found, recorded), advice);
  require(config::flags().capture.on_stale != "error", ErrorCode::capture_divergence, "{}", text);
  report::log_line(report::LogLevel::warning, "capture", text);
}

}  // namespace tenon
