// Passes over joint graphs: their table, and how a rule's answers get into the graph.
#include "aot/joint_pass.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/joined.h"
#include "graph/copy.h"
#include "graph/passes/passes.h"
#include "graph/text/print.h"
#include "graph/verify.h"
#include "ops/op_table.h"
#include "report/events.h"

#include <tenon/joint_pass.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace tenon {

namespace {

struct JointPasses {
  std::mutex passes_mutex;
  std::map<std::string, JointPass, std::less<>> by_name;
};

JointPasses& joint_passes() {
  static JointPasses& passes = *new JointPasses();
  return passes;
}

JointPass pass_named(const std::string& name) {
  std::vector<std::string> known;
  {
    std::lock_guard lock(joint_passes().passes_mutex);
    auto found = joint_passes().by_name.find(name);
    if (found != joint_passes().by_name.end()) return found->second;
    for (const auto& [key, pass] : joint_passes().by_name) known.push_back(key);
  }
  fail(
      "functorch.joint_custom_pass: there is no pass '{}'; register it with register_joint_pass "
      "before the function is compiled; registered are: {}",
      name, known.empty() ? "none" : joined(known));
}

/// Marks that a graph is being walked over: one that took its place would leave the walk without.
class InRule {
 public:
  explicit InRule(bool& mark) : mark_(mark) { mark_ = true; }
  ~InRule() { mark_ = false; }
  InRule(const InRule&) = delete;

 private:
  bool& mark_;
};

/// Who records what the rule of this thread's pass calls, or null.
thread_local constinit const void* recorder_of_rule = nullptr;

class RecorderOfRule {
 public:
  explicit RecorderOfRule(const GraphRecorder& recorder)
      : before_(std::exchange(recorder_of_rule, &recorder)) {}
  ~RecorderOfRule() { recorder_of_rule = before_; }
  RecorderOfRule(const RecorderOfRule&) = delete;

 private:
  const void* before_;
};

/// One walk over a joint graph with a rule.
class Rewriting {
 public:
  Rewriting(const Graph& graph, const JointGraph::Rule& rule)
      : graph_(graph), rule_(rule), copy_(graph) {}

  std::shared_ptr<Graph> run() {
    RecordScope scope(copy_.recorder());
    RecorderOfRule mark(copy_.recorder());
    copy_.add_inputs();
    copy_.add_constants();
    show_inputs(false);
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      if (graph_.node(n).is_backward) show_inputs(true);
      copy_.add_node(n);
      show_call(graph_.node(n));
    }
    show_inputs(true);
    std::shared_ptr<Graph> changed = copy_.finish();
    drop_replaced_draws(*changed);
    return changed;
  }

 private:
  // What is made of tangents stands in the backward, behind the forward.
  void show_inputs(bool tangents) {
    if (tangents && std::exchange(tangents_shown_, true)) return;
    for (ValueId v : graph_.inputs())
      if (graph_.value(v).kind == ValueKind::tensor && graph_.value(v).flags.tangent == tangents)
        show_input(v);
  }

  void show_input(ValueId v) {
    const GraphValue& value = graph_.value(v);
    JointCall call;
    call.kind = value.flags.tangent ? JointCall::Kind::tangent : JointCall::Kind::primal;
    call.is_backward = value.flags.tangent;
    copy_.recorder().is_backward = value.flags.tangent;
    show(call, {v});
  }

  void show_call(const Node& node) {
    std::vector<ValueId> results;
    for (uint32_t r = 0; r < node.n_results; ++r)
      if (graph_.value(node.first_result + r).kind == ValueKind::tensor)
        results.push_back(node.first_result + r);
    if (results.empty()) return;
    std::vector<Tensor> arguments;
    Graph::for_each_use(node, [&](ValueId v) {
      if (copy_.fake(v).defined()) arguments.push_back(copy_.fake(v));
    });
    JointCall call;
    call.op = entry_of(node.op).name;
    call.is_backward = node.is_backward;
    call.tensors = arguments;
    show(call, results);
  }

  void show(JointCall& call, const std::vector<ValueId>& values) {
    std::string name = display_name(graph_, values[0]);
    std::vector<Tensor> results;
    for (ValueId v : values) results.push_back(copy_.fake(v));
    call.name = name;
    call.results = results;
    std::vector<Tensor> others = rule_(call);
    if (others.empty()) return;
    require(others.size() == values.size(),
            "the rule of a joint pass: expected {} tensors for {}, found {}; give one for each "
            "result, or none to leave the call",
            values.size(), name, others.size());
    for (size_t i = 0; i < values.size(); ++i) {
      replaced_.push_back(copy_.recorder().value_of(copy_.fake(values[i])));
      copy_.replace(values[i], std::move(others[i]));
    }
  }

  // A draw that nobody reads stays, one that a rule has put something else in place of does not.
  void drop_replaced_draws(Graph& graph) const {
    std::vector<bool> read(graph.values().size());
    for (ValueId v : graph.outputs())
      if (v != no_value) read[v] = true;
    for (const Node& node : graph.nodes())
      Graph::for_each_use(node, [&](ValueId v) { read[v] = true; });
    std::vector<bool> dead(graph.nodes().size());
    for (ValueId v : replaced_) {
      if (graph.value(v).source != ValueSource::node) continue;
      uint32_t n = graph.value(v).source_index;
      const Node& node = graph.node(n);
      auto results = read.begin() + node.first_result;
      dead[n] = (entry_of(node.op).tags & TN_TAG_RANDOM) &&
                std::none_of(results, results + node.n_results, std::identity());
    }
    if (std::ranges::find(dead, true) != dead.end()) graph.erase_nodes(dead);
  }

  const Graph& graph_;
  const JointGraph::Rule& rule_;
  GraphCopy copy_;
  std::vector<ValueId> replaced_;  // of the copy, what rules have put something else in place of
  bool tangents_shown_ = false;
};

}  // namespace

void register_joint_pass(std::string name, JointPass pass) {
  require(!name.empty() && pass, "register_joint_pass: expected a name and a function, found none");
  std::lock_guard lock(joint_passes().passes_mutex);
  joint_passes().by_name.insert_or_assign(std::move(name), std::move(pass));
}

void JointGraph::rewrite(const Rule& rule) {
  require(static_cast<bool>(rule), "JointGraph::rewrite: expected a function, found none");
  require(!in_rule_,
          "JointGraph::rewrite: expected a call by a pass, found one by a rule while the graph is "
          "walked over; call it again after the first rewrite has returned");
  InRule walking(in_rule_);
  replace_graph(joint_, Rewriting(*joint_.graph, rule).run());
  remove_dead_code(*joint_.graph, {.keep_random = true});
}

// Within the meta function or the decomposition of an op that the rule calls, that op is asked.
bool is_in_joint_pass() {
  bool only_shapes = thread_modes.include & bit(Key::meta);
  return recorder_of_rule && thread_modes.tracer == recorder_of_rule && !only_shapes;
}

std::string JointGraph::text() const { return to_text(*joint_.graph); }

void run_joint_pass(Lowered& joint, const LowerOptions& options) {
  const std::string& name = config::flags().functorch.joint_custom_pass;
  if (name.empty()) return;
  JointPass pass = pass_named(name);
  JointGraph graph(joint);
  auto failed = [&](const std::exception& error) {
    return message("functorch.joint_custom_pass: pass '{}' failed: {}", name, error.what());
  };
  try {
    pass(graph);
  } catch (const UserError& error) {
    if (!name_of(error.code()).empty()) throw;  // its message begins with its kind
    throw UserError(error.code(), failed(error));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(failed(error));
  }
  if (remove_writes(joint, options)) remove_dead_code(*joint.graph, {.keep_random = true});
  verify(*joint.graph);
  report::counter("aot.joint_passes").add();
}

}  // namespace tenon
