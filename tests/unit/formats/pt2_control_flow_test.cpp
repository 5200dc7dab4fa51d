// Control flow of archives: sub-graphs become bodies, and files that contradict themselves are
// refused.
#include "core/sym/shape_env.h"
#include "formats/pt2/pt2_import.h"
#include "graph/control_flow.h"
#include "small_archive.h"
#include "test_files.h"

#include <gmock/gmock.h>

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

class Pt2ControlFlow : public ::testing::Test {
 protected:
  static Pt2Program program(const std::string& name) {
    return read_pt2(own_recording("models/" + name + ".pt2"));
  }
  static Pt2Node& node_of(Pt2Program& p) {
    return *std::ranges::find(p.graph.nodes, Pt2TargetKind::higher_order, &Pt2Node::kind);
  }
  static void expect_refusal(const Pt2Program& p, const std::string& reason, ErrorCode code) {
    auto refused = refusal_of([&] { import_pt2(p); });
    EXPECT_EQ(refused.code, code) << refused.message;
    EXPECT_THAT(refused.message, HasSubstr(reason));
  }
};

TEST_F(Pt2ControlFlow, EachOpIsANodeWithItsBodies) {
  const std::pair<const char*, size_t> cases[] = {
      {"hop_cond", 2}, {"hop_while", 2}, {"hop_map", 1}, {"hop_scan", 1}};
  for (auto [name, n_bodies] : cases) {
    ImportedModel model = import_pt2(program(name));
    EXPECT_EQ(model.graph->subgraphs.size(), n_bodies) << name;
    EXPECT_EQ(std::ranges::count_if(model.graph->nodes(),
                                    [](const Node& n) { return is_control_flow(entry_of(n.op)); }),
              1)
        << name;
  }
}

TEST_F(Pt2ControlFlow, WhatDoesNotFitIsRefused) {
  Pt2Program p = program("hop_cond");
  p.graph.tensors.at("getitem").dtype = Dtype::f64;
  expect_refusal(p, "result 0 of torch.ops.higher_order.cond is f64", ErrorCode::bad_file);

  p = program("hop_cond");
  node_of(p).inputs.pop_back();
  expect_refusal(p, "has 3 arguments, expected 4", ErrorCode::bad_file);

  p = program("hop_cond");
  node_of(p).inputs[3].value.items.pop_back();
  expect_refusal(p, "true_graph takes 5 inputs, but gets 4 operands", ErrorCode::bad_file);

  p = program("hop_scan");
  auto body = std::make_shared<Pt2Graph>(*node_of(p).inputs[0].value.graph);
  body->outputs.clear();
  node_of(p).inputs[0].value.graph = body;
  expect_refusal(p, "combine_graph gives 0 results, 1 values are carried", ErrorCode::bad_file);
}

// As torch.export writes it for results of a loop that a branch takes.
TEST_F(Pt2ControlFlow, WhereOperandsLayAtExportMakesNoDifference) {
  Pt2Program p = program("hop_cond");
  auto body = std::make_shared<Pt2Graph>(*node_of(p).inputs[1].value.graph);
  const Expr* open = as_expr(p.symbols->create_unbacked());
  body->tensors.at(body->inputs[0].text).storage_offset = {.expr = open, .hint = {}};
  node_of(p).inputs[1].value.graph = body;
  ImportedModel model = import_pt2(p);
  EXPECT_EQ(model.graph->subgraphs.size(), 2u);
}

TEST_F(Pt2ControlFlow, NumbersAsOperandsAreNotSupported) {
  Pt2Program p = program("hop_map");
  Pt2Argument& operand = node_of(p).inputs[2].value.items[0];
  operand = {};
  operand.kind = Pt2Kind::integer;
  operand.integer = 3;
  expect_refusal(p, "an operand of torch.ops.higher_order.map_impl is not a tensor",
                 ErrorCode::unsupported);
}

TEST_F(Pt2ControlFlow, OpsThatAreMissingInBodiesAreListed) {
  Pt2Program p = program("hop_map");
  auto body = std::make_shared<Pt2Graph>(*node_of(p).inputs[0].value.graph);
  body->nodes[0].op = "aten.no_such.default";
  node_of(p).inputs[0].value.graph = body;
  expect_refusal(p, "aten.no_such.default (1 time)", ErrorCode::unsupported);
}

}  // namespace
}  // namespace tenon::formats
