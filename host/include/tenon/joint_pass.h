// SPDX-License-Identifier: Apache-2.0
// Passes of the user over joint graphs: forward and backward of a function that is compiled for
// training, before they are cut in two.
//
//     tenon::register_joint_pass("app.clip", [](tenon::JointGraph& graph) {
//       graph.rewrite([](const tenon::JointCall& call) -> std::vector<tenon::Tensor> {
//         if (call.kind != tenon::JointCall::Kind::tangent) return {};
//         return {clamp(call.results[0], -1, 1)};  // what arrives from outside is clipped
//       });
//     });
//     tenon::config::set("functorch.joint_custom_pass", "app.clip");
//
// A pass sees the graph that the backend's decompositions gave; what it changes is found in both
// halves. Second derivatives are taken of the forward half as the pass left it.
//
// Threads: all functions may be called from any thread. A pass runs on the thread that compiles;
// several may compile at once, so a pass guards what it shares.
#pragma once

#include <tenon/tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct Lowered;

/// A value or call of a joint graph. Tensors have sizes, dtype and strides, but no data.
struct JointCall {
  enum class Kind : uint8_t {
    primal,   ///< an argument of the forward
    tangent,  ///< the gradient that arrives for a result
    call
  } kind = Kind::call;
  std::string_view op;       ///< of calls: "aten.mul.Tensor"
  std::string_view name;     ///< of the value, or of the first result, as in the graph's text
  bool is_backward = false;  ///< tangents, and what was recorded while gradients were computed
  std::span<const Tensor> tensors;  ///< the arguments that are tensors, parts of lists one by one
  std::span<const Tensor> results;  ///< what it gives; a value gives itself
};

/// The graph, while a pass runs.
class TENON_API JointGraph {
 public:
  explicit JointGraph(Lowered& joint) : joint_(joint) {}
  JointGraph(const JointGraph&) = delete;

  /// Shown a call, gives tensors to take the place of its results, one for each, or nothing to
  /// leave it as it is. The tensors are made of those that it sees by ordinary operations, which
  /// become calls of the graph; tensors with data become constants.
  using Rule = std::function<std::vector<Tensor>(const JointCall&)>;

  /// Asks for the arguments, then for each call in the order in which they run. What nobody needs
  /// any more is removed. Throws UserError where a replacement has other sizes, dtype or device, and
  /// where a rule calls it.
  void rewrite(const Rule& rule);
  /// The graph as text: docs/graph-text.md.
  std::string text() const;

 private:
  Lowered& joint_;
  bool in_rule_ = false;
};

using JointPass = std::function<void(JointGraph&)>;

/// Registers a pass for this process; flag functorch.joint_custom_pass names the one that runs. One
/// of the same name is replaced.
TENON_API void register_joint_pass(std::string name, JointPass pass);

}  // namespace tenon
