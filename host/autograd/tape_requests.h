// What a body asks of the tape about tensors that it has only recorded: hooks, and functions with a
// derivative of their own.
//
// Problem: there is no node yet, and code for a whole graph shows gradients of its results only.
// Model: the graph says where the tape is wanted, in facts of nodes: `hooks` names hooked results,
// `sought` those that may be asked for their gradients, `own_node` an operation whose node itself is
// hooked, `function` the inputs, results and saved values of a function whose forward ends there. Code
// of the graph ends a piece at these places. Each call brings the hooks and functions themselves, which
// are attached to what the piece has made. Threads: the requests of a call stay with its thread; a
// handle may be used on any.
#pragma once

#include "autograd/function.h"
#include "core/function_ref.h"
#include "graph/graph.h"

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tenon::autograd {

/// Registers something on a tensor that has a tape.
using AttachHook = std::function<HookHandle(const Tensor& real)>;

/// A hook that was registered on a tensor without a tape.
class WaitingHook {
 public:
  explicit WaitingHook(AttachHook attach) : attach_(std::move(attach)) {}
  void attach(const Tensor& real);
  void remove();

 private:
  const AttachHook attach_;
  std::mutex lock_;  // guards what follows
  bool is_removed_ = false;
  HookHandle attached_;
};
/// The handle that the body gets.
HookHandle handle_of(std::shared_ptr<WaitingHook> hook);

struct HookOnValue {
  ValueId value;
  std::shared_ptr<WaitingHook> hook;
  bool on_node = false;  ///< of the operation that made it, which needs a node of its own
};
struct FunctionAtNode {
  NodeId last;  ///< of the nodes of its forward
  std::shared_ptr<const WaitingFunction> function;
};
struct TapeRequests {
  std::vector<HookOnValue> hooks;
  std::vector<FunctionAtNode> functions;

  bool is_empty() const { return hooks.empty() && functions.empty(); }
};

/// Where a function lies in a graph; no_value stands for undefined tensors.
struct FunctionPlace {
  std::vector<ValueId> inputs, results, saved;
  ResultKinds kinds;

  std::string text() const;
  /// Of the function whose forward ends with the node; nothing where none does.
  static std::optional<FunctionPlace> of(const tenon::Node& node);
};
using TensorOfValue = FunctionRef<Tensor(ValueId)>;

/// While one lives, code of a graph that this thread calls attaches these requests.
class RequestsOfCall {
 public:
  explicit RequestsOfCall(const TapeRequests& requests) : RequestsOfCall(&requests) {}
  explicit RequestsOfCall(const std::optional<TapeRequests>& requests)
      : RequestsOfCall(requests ? &*requests : nullptr) {}
  ~RequestsOfCall();
  RequestsOfCall(const RequestsOfCall&) = delete;

  /// The hooks on values for which `tensor` gives one are registered, in order.
  static void attach_hooks(TensorOfValue tensor);
  /// The results of the function that ends at this node get their history. `wrap` may put other code
  /// in the place of a backward.
  static void attach_function(NodeId last, const FunctionPlace& place, TensorOfValue tensor,
                              FunctionRef<detail::FunctionBackward(detail::FunctionBackward)> wrap);

 private:
  explicit RequestsOfCall(const TapeRequests* requests);

  const TapeRequests* before_;
};

/// The tape must have this value of the graph, a result of a node, as a tensor.
void mark_hooked(Graph& graph, ValueId value);
bool is_hooked(const tenon::Node& node);
/// The values that are marked, in order.
std::vector<ValueId> hooked_values(const Graph& graph);
/// The body may ask for the gradient of this value, a result of a node, when the graph has run: all of it
/// is to come by on the tape.
void mark_sought(Graph& graph, ValueId value);
/// Those, in order.
std::vector<ValueId> sought_values(const Graph& graph);
/// The operation that makes this value must have a node of its own on the tape.
void mark_own_node(Graph& graph, ValueId value);
bool has_own_node(const tenon::Node& node);
void mark_function(Graph& graph, NodeId last, const FunctionPlace& place);
/// The last nodes of functions, in order.
std::vector<NodeId> ends_of_functions(const Graph& graph);
/// The first of the nodes up to `last` that run without gradients, in a graph that is run with
/// gradients on, or off; no further than the end of another function. `last` + 1: there is none.
NodeId begin_of_forward(const Graph& graph, NodeId last, bool grad_enabled);
/// Takes the marks off.
void forget_requests(Graph& graph);
/// Whether all of the gradient of an output comes from outside of the graph, or from another piece of it:
/// no other output that needs a gradient, and may get one, was computed from it.
bool has_whole_gradient(const Graph& graph, ValueId output,
                        FunctionRef<bool(size_t output)> may_get_gradient);

/// While a recorder runs: what becomes of a hook. capture/tape/hooks.cpp.
struct HookWish {
  const char* what;     ///< "register_hook"
  bool is_for_results;  ///< of operations; else for leaves only
  AttachHook attach;
  bool on_node = false;  ///< on the node that made the tensor
};
extern HookHandle (*hook_slot)(const Tensor& t, HookWish wish);

/// Stands for the node that a recorded operation will have.
class ComingNode final : public Node {
 public:
  ComingNode(std::string name, Tensor result)
      : name_(std::move(name)), result_(std::move(result)) {}
  std::string name() const override { return name_; }
  std::vector<Tensor> apply(std::vector<Tensor> grads) override;
  /// A fake, as long as the body runs.
  const Tensor& result() const { return result_; }

 private:
  std::string name_;
  Tensor result_;
};
/// While a recorder runs: the node of a fake that the tape does not know, or what stands for it; null
/// for leaves. capture/tape/fake_tape.cpp.
extern std::shared_ptr<Node> (*node_slot)(const Tensor& fake);

}  // namespace tenon::autograd
