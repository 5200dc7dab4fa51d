// Hooks that a body registers: at once where the tensor is known, else with the code that makes it.
#include "capture/tape/hooks.h"

#include "capture/body_scope.h"
#include "capture/errors/error_of_run.h"
#include "capture/follow/follow.h"
#include "capture/tape/run_again.h"
#include "capture/trace.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "graph/passes/aliasing.h"
#include "ops/op_table.h"

#include <algorithm>
#include <optional>

namespace tenon {

using autograd::HookHandle;
using autograd::HookWish;
using autograd::WaitingHook;

HookHandle attach_now(const HookWish& wish, const Tensor& real) {
  PauseRecording pause;
  HookHandle handle = wish.attach(real);
  ChangesOfRun::note([handle]() mutable { handle.remove(); });
  return handle;
}

HookHandle wait_with(const HookWish& wish, ValueId value, autograd::TapeRequests& requests) {
  require(wish.is_for_results, "{}: expected a leaf that needs a gradient", wish.what);
  requests.hooks.push_back({value, std::make_shared<WaitingHook>(wish.attach), wish.on_node});
  return autograd::handle_of(requests.hooks.back().hook);
}

void require_whole_gradient(const HookWish& wish, const Graph& graph, ValueId output,
                            FunctionRef<bool(size_t)> may_get_gradient) {
  refuse_unless(
      autograd::has_whole_gradient(graph, output, may_get_gradient), ErrorCode::unsupported,
      "{}: the body has computed other results from the tensor before a graph break, whose part "
      "of its gradient would not be seen; call {} before the graph break",
      wish.what, wish.what);
}

void keep_whole_gradients(Graph& segment) {
  auto may_get_gradient = [](size_t) { return true; };
  for (ValueId v : segment.outputs()) {
    bool may_be_asked = v != no_value && segment.value(v).flags.requires_grad &&
                        segment.value(v).source == ValueSource::node;
    if (may_be_asked && !autograd::has_whole_gradient(segment, v, may_get_gradient) &&
        !is_written_through_views(segment, v))
      autograd::mark_sought(segment, v);
  }
}

bool takes_at_once(const Tensor& real, const HookWish& wish) {
  PauseRecording pause;
  return real.defined() && real.is_leaf() && (real.requires_grad() || !wish.is_for_results);
}

void require_node_to_come(const HookWish& wish) {
  refuse_unless(
      !wish.on_node, ErrorCode::unsupported,
      "{}: the operation that made the tensor has run before a graph break, in one piece with "
      "others, and has no node of its own; call {} before the graph break",
      wish.what, wish.what);
}

bool is_written_through_views(const Graph& graph, ValueId value, NodeId end) {
  const GraphValue& made = graph.value(value);
  bool is_from_before = made.source != ValueSource::node;
  std::span<const Node> later = graph.nodes().first(std::min<size_t>(end, graph.nodes().size()));
  later = later.subspan(is_from_before ? 0 : made.source_index + size_t{1});
  auto writes = [](const Node& node) { return written_args(node) != 0; };
  if (std::ranges::none_of(later, writes)) return false;
  AliasClasses classes(graph);
  bool is_one = false;
  for (const Node& node : later)
    for (size_t i = 0; i < node.args.size() && i < 64; ++i)
      if (written_args(node) >> i & 1)
        for_each_value(node.args[i], [&](ValueId v) {
          is_one = is_one || (v != value && classes.of(v) == classes.of(value));
        });
  return is_one;
}

namespace {

// A fake of an earlier segment.
void require_whole_gradient(const HookWish& wish, Trace& trace, uint32_t output) {
  std::vector<ValueOrigin> reachable = trace.inputs().segment_origins();
  for (const Segment& segment : trace.so_far().segments)
    reachable.insert(reachable.end(), segment.inputs.begin(), segment.inputs.end());
  for (const Tensor& fake : recorder_of_thread().earlier_fakes())
    if (const ValueOrigin* origin = trace.inputs().known_origin(fake)) reachable.push_back(*origin);
  uint32_t first = 0;
  for (const Segment& segment : trace.so_far().segments) {
    auto may_get_gradient = [&](size_t i) {
      ValueOrigin origin{ValueOrigin::Kind::graph, first + static_cast<uint32_t>(i)};
      return std::ranges::find(reachable, origin) != reachable.end();
    };
    if (output < first + segment.n_outputs)
      return require_whole_gradient(wish, *segment.graph, segment.graph->outputs()[output - first],
                                    may_get_gradient);
    first += static_cast<uint32_t>(segment.n_outputs);
  }
}

// On the tape of a body, which goes when the body ends. Arguments and captured tensors stay, and so do
// their hooks, which passes over that tape call where they are leaves. `real`: what a fake stands for.
HookHandle hook_on_tape(const Tensor& t, const Tensor& real, const HookWish& wish) {
  if (!real.defined()) return wish.attach(t);
  refuse_unless(
      real.is_leaf(), ErrorCode::unsupported,
      "{}: an operation outside of a body that calls backward() and must be one graph has made "
      "the tensor; leave out fullgraph, or call it outside of the body",
      wish.what);
  return attach_now(wish, real);
}

HookHandle hook_in_trace(Trace& trace, const Tensor& t, const HookWish& wish) {
  if (trace.is_on_tape()) return hook_on_tape(t, t.is_fake() ? concrete_of(t) : t, wish);
  Tensor fake = t.is_fake() ? t : trace.inputs().stand_ins.fake_of(t);
  if (!fake.defined()) return attach_now(wish, t);
  if (Tensor real = trace.inputs().stand_ins.real_of(fake); takes_at_once(real, wish))
    return attach_now(wish, real);
  GraphRecorder& recorder = recorder_of_thread();
  // The value is from before such a write, the gradient that is asked for from behind it.
  if (recorder.owns(fake) && is_written_through_views(recorder.graph(), recorder.value_of(fake)))
    trace.graph_break(message("{} on a tensor that was written through a view", wish.what),
                      std::source_location());
  if (recorder.owns(fake)) {
    ValueId value = recorder.value_of(fake);
    if (recorder.graph().value(value).source == ValueSource::node) {
      HookHandle handle = wait_with(wish, value, trace.requests());
      autograd::mark_hooked(recorder.graph(), value);
      if (wish.on_node) autograd::mark_own_node(recorder.graph(), value);
      return handle;
    }
  }
  require_node_to_come(wish);
  const ValueOrigin* origin = trace.inputs().known_origin(fake);
  if (origin && origin->kind == ValueOrigin::Kind::graph)
    require_whole_gradient(wish, trace, origin->index);
  return attach_now(wish, real_of(fake));
}

// Nothing where recording begins.
std::optional<HookHandle> hook_in_walk(Follower& follower, const Tensor& t, const HookWish& wish) {
  Tensor real = t.is_fake() ? follower.walk().real_of(t) : t;
  bool is_known = real.defined() && !takes_at_once(real, wish) && !follower.walk().pending_value(t);
  if (is_known && follower.walk().is_to_be_written(real) && !follower.passes_break())
    return std::nullopt;
  return follower.takes_hook(t, wish);
}

const bool installed_hooks = (
    autograd::hook_slot =
        [](const Tensor& t, HookWish wish) {
          BodyScope::check_for_tape(message("{} asks for gradients", wish.what));
          Follower* follower = Follower::current();
          if (follower && follower->is_on_tape())
            return hook_on_tape(t, t.is_fake() ? follower->walk().real_of(t) : t, wish);
          if (follower)
            if (auto taken = hook_in_walk(*follower, t, wish)) return *std::move(taken);
          Trace* trace = Trace::current();
          require(trace != nullptr, ErrorCode::unsupported,
                  "{}: not supported while a graph tracer records", wish.what);
          return hook_in_trace(*trace, t, wish);
        },
    true);

}  // namespace

}  // namespace tenon
