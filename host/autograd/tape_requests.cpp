// Marks in graphs where the tape is wanted, and what a call brings for them.
#include "autograd/tape_requests.h"

#include "core/error.h"
#include "graph/passes/view_root.h"

#include <algorithm>
#include <charconv>

namespace tenon::autograd {

namespace {

thread_local const TapeRequests* requests_of_call = nullptr;

constexpr const char *hooks_fact = "hooks", *sought_fact = "sought", *own_node_fact = "own_node",
                     *function_fact = "function";

template <class T>
std::string list_text(const std::vector<T>& numbers) {
  std::string text;
  for (T n : numbers) text += (text.empty() ? "" : " ") + std::to_string(n);
  return text;
}

template <class T>
std::vector<T> list_of_text(std::string_view text) {
  std::vector<T> numbers;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    T number = 0;
    auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) break;
    numbers.push_back(number);
    at = next + (next < end);
  }
  return numbers;
}

std::vector<uint32_t> marked_results(const tenon::Node& node, const char* fact = hooks_fact) {
  auto found = node.facts.find(fact);
  if (found == node.facts.end()) return {};
  auto results = list_of_text<uint32_t>(found->second);
  std::erase_if(results, [&](uint32_t r) { return r >= node.n_results; });
  return results;
}

void mark_result(Graph& graph, ValueId value, const char* fact) {
  const GraphValue& made = graph.value(value);
  tenon::Node& node = graph.node(made.source_index);
  std::vector<uint32_t> results = marked_results(node, fact);
  if (std::ranges::find(results, made.result_index) != results.end()) return;
  results.push_back(made.result_index);
  std::ranges::sort(results);
  node.facts[fact] = list_text(results);
}

std::vector<ValueId> marked_values(const Graph& graph, const char* fact) {
  std::vector<ValueId> values;
  for (const tenon::Node& node : graph.nodes())
    for (uint32_t r : marked_results(node, fact)) values.push_back(node.first_result + r);
  return values;
}

bool ends_piece(const Graph& graph, ValueId value) {
  const GraphValue& made = graph.value(value);
  if (made.source != ValueSource::node) return false;
  auto is_marked = [&](const char* fact) {
    std::vector<uint32_t> results = marked_results(graph.node(made.source_index), fact);
    return std::ranges::find(results, made.result_index) != results.end();
  };
  return is_marked(hooks_fact) || is_marked(sought_fact);
}

}  // namespace

HookHandle (*hook_slot)(const Tensor&, HookWish) = nullptr;
std::shared_ptr<Node> (*node_slot)(const Tensor&) = nullptr;

std::vector<Tensor> ComingNode::apply(std::vector<Tensor>) {
  ensure(false, "a node that only stands for another one is on the tape");
  return {};
}

// ---- what waits

void WaitingHook::attach(const Tensor& real) {
  std::lock_guard guard(lock_);
  if (!is_removed_) attached_ = attach_(real);
}

void WaitingHook::remove() {
  std::lock_guard guard(lock_);
  is_removed_ = true;
  attached_.remove();
}

HookHandle handle_of(std::shared_ptr<WaitingHook> hook) {
  return HookHandle([hook = std::move(hook)] { hook->remove(); });
}

RequestsOfCall::RequestsOfCall(const TapeRequests* requests)
    : before_(std::exchange(requests_of_call, requests)) {}
RequestsOfCall::~RequestsOfCall() { requests_of_call = before_; }

void RequestsOfCall::attach_hooks(TensorOfValue tensor) {
  if (!requests_of_call) return;
  for (const HookOnValue& on : requests_of_call->hooks)
    if (Tensor real = tensor(on.value); real.defined() && real.requires_grad())
      on.hook->attach(real);
}

void RequestsOfCall::attach_function(
    NodeId last, const FunctionPlace& place, TensorOfValue tensor,
    FunctionRef<detail::FunctionBackward(detail::FunctionBackward)> wrap) {
  if (!requests_of_call) return;
  auto tensors = [&](const std::vector<ValueId>& values) {
    std::vector<Tensor> list;
    for (ValueId v : values) list.push_back(v == no_value ? Tensor() : tensor(v));
    return list;
  };
  for (const FunctionAtNode& at : requests_of_call->functions)
    if (at.last == last)
      at.function->attach({tensors(place.inputs), tensors(place.results), tensors(place.saved)},
                          wrap);
}

// ---- marks

std::string FunctionPlace::text() const {
  return list_text(inputs) + ";" + list_text(results) + ";" + list_text(saved) + ";" +
         list_text(kinds.fixed) + ";" + list_text(kinds.dirty);
}

std::optional<FunctionPlace> FunctionPlace::of(const tenon::Node& node) {
  auto found = node.facts.find(function_fact);
  if (found == node.facts.end()) return std::nullopt;
  std::vector<std::string_view> lists;
  std::string_view rest = found->second;
  for (size_t end; (end = rest.find(';')) != rest.npos; rest.remove_prefix(end + 1))
    lists.push_back(rest.substr(0, end));
  lists.push_back(rest);
  ensure(lists.size() == 5, "a function of a graph has a wrong description");
  return FunctionPlace{list_of_text<ValueId>(lists[0]),
                       list_of_text<ValueId>(lists[1]),
                       list_of_text<ValueId>(lists[2]),
                       {list_of_text<uint32_t>(lists[3]), list_of_text<uint32_t>(lists[4])}};
}

void mark_hooked(Graph& graph, ValueId value) { mark_result(graph, value, hooks_fact); }
bool is_hooked(const tenon::Node& node) { return !marked_results(node).empty(); }
std::vector<ValueId> hooked_values(const Graph& graph) { return marked_values(graph, hooks_fact); }

void mark_sought(Graph& graph, ValueId value) { mark_result(graph, value, sought_fact); }
std::vector<ValueId> sought_values(const Graph& graph) { return marked_values(graph, sought_fact); }

void mark_own_node(Graph& graph, ValueId value) {
  graph.node(graph.value(value).source_index).facts[own_node_fact] = "true";
}

bool has_own_node(const tenon::Node& node) { return node.facts.contains(own_node_fact); }

void mark_function(Graph& graph, NodeId last, const FunctionPlace& place) {
  graph.node(last).facts[function_fact] = place.text();
}

std::vector<NodeId> ends_of_functions(const Graph& graph) {
  std::vector<NodeId> ends;
  for (NodeId n = 0; n < graph.nodes().size(); ++n)
    if (graph.node(n).facts.contains(function_fact)) ends.push_back(n);
  return ends;
}

NodeId begin_of_forward(const Graph& graph, NodeId last, bool grad_enabled) {
  NodeId begin = last + 1;
  auto belongs = [&](NodeId n) {
    return !is_grad_enabled_at(graph.node(n), grad_enabled) &&
           (n == last || !graph.node(n).facts.contains(function_fact));
  };
  while (begin > 0 && belongs(begin - 1)) --begin;
  return begin;
}

void forget_requests(Graph& graph) {
  for (NodeId n = 0; n < graph.nodes().size(); ++n)
    for (const char* fact : {hooks_fact, sought_fact, own_node_fact, function_fact})
      graph.node(n).facts.erase(fact);
}

bool has_whole_gradient(const Graph& graph, ValueId output,
                        FunctionRef<bool(size_t output)> may_get_gradient) {
  if (ends_piece(graph, output)) return true;
  std::vector<bool> reached(graph.values().size());
  reached[output] = true;
  for (const tenon::Node& node : graph.nodes()) {
    bool reads = false;
    Graph::for_each_use(node, [&](ValueId v) { reads = reads || reached[v]; });
    for (uint32_t r = 0; reads && r < node.n_results; ++r) reached[node.first_result + r] = true;
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    ValueId v = graph.outputs()[i];
    bool is_other = v != no_value && v != output && reached[v];
    if (is_other && graph.value(v).flags.requires_grad && may_get_gradient(i)) return false;
  }
  return true;
}

}  // namespace tenon::autograd
