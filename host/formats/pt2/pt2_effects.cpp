// Calls that PyTorch threads a token through, so that none of them moves or goes away.
//
// Such a call is with_effects(token, op, arguments...) and gives the next token before the op's own
// results; the first token is an input of the program and the last one an output. Here nodes stay in
// their order and ops say themselves whether they have effects, so the call becomes that of the op,
// and the tokens go.
#include "formats/pt2/pt2_parts.h"

#include <algorithm>

namespace tenon::formats::pt2 {

namespace {

bool is_effect(const Pt2Node& node) {
  return node.kind == Pt2TargetKind::higher_order && node.op == "with_effects";
}

void unwrap(Pt2Node& node, const std::string& subject) {
  check(node.inputs.size() >= 2 && node.inputs[0].value.kind == Pt2Kind::tensor &&
            node.inputs[1].value.kind == Pt2Kind::op,
        "{}: node {} ({}): expected a token and an op as the first arguments", subject, node.name,
        node.target);
  check(!node.outputs.empty() && node.outputs[0].kind == Pt2Kind::tensor,
        "{}: node {} ({}): expected a token as the first result", subject, node.name, node.target);
  set_target(node, node.inputs[1].value.text);
  node.inputs.erase(node.inputs.begin(), node.inputs.begin() + 2);
  node.outputs.erase(node.outputs.begin());
  bool gives_nothing = node.outputs.size() == 1 && node.outputs[0].kind == Pt2Kind::none;
  if (gives_nothing) node.outputs.clear();
}

}  // namespace

void unwrap_effects(Pt2Graph& graph, const std::string& subject) {
  for (Pt2Node& node : graph.nodes)
    if (is_effect(node)) unwrap(node, subject);
}

void drop_token(std::vector<Pt2Argument>& arguments, const JsonView& spec,
                const std::string& name) {
  auto found = std::ranges::find(arguments, name, &Pt2Argument::text);
  check(found != arguments.end(), "{}: the graph has no token {}", spec, name);
  arguments.erase(found);
}

}  // namespace tenon::formats::pt2
