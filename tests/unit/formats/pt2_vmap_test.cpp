// What vmap leaves in an export: regions of nodes that mean nothing one by one become maps, and what
// has no map is refused by name.
#include "formats/pt2/pt2_parts.h"
#include "test_files.h"

#include <gmock/gmock.h>

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

Pt2Argument tensor_called(const std::string& name) {
  Pt2Argument out{.kind = Pt2Kind::tensor};
  out.text = name;
  return out;
}
Pt2Argument string_of(const std::string& text) {
  Pt2Argument out{.kind = Pt2Kind::string};
  out.text = text;
  return out;
}
Pt2Argument whole_number(int64_t n) { return {.kind = Pt2Kind::integer, .integer = n}; }

Pt2Node vmap_node(const std::string& name, std::vector<Pt2Argument> inputs,
                  const std::string& result = "") {
  Pt2Node node;
  node.target = node.op = "torch._functorch.predispatch." + name;
  for (Pt2Argument& a : inputs) node.inputs.push_back({"", std::move(a)});
  node.outputs.push_back(result.empty() ? Pt2Argument{} : tensor_called(result));
  return node;
}
Pt2Node sine_of(const std::string& of, const std::string& result) {
  Pt2Node node{
      .target = "torch.ops.aten.sin.default", .kind = Pt2TargetKind::op, .op = "aten.sin.default"};
  node.inputs.push_back({"self", tensor_called(of)});
  node.outputs.push_back(tensor_called(result));
  return node;
}
void describe_tensor(Pt2Graph& graph, const std::string& name, std::vector<int64_t> sizes) {
  Pt2TensorMeta meta;
  for (int64_t n : sizes) meta.sizes.push_back({intern_integer(n), std::nullopt});
  meta.strides = meta.sizes;
  graph.tensors.emplace(name, std::move(meta));
}

/// sin of the columns of x: f32[2, 3], as columns of the result.
Pt2Graph sines_of_columns() {
  Pt2Graph g;
  g.inputs.push_back(tensor_called("x"));
  g.nodes = {
      vmap_node("lazy_load_decompositions", {}),
      vmap_node("_vmap_increment_nesting", {whole_number(3), string_of("error")}),
      vmap_node("_add_batch_dim", {tensor_called("x"), whole_number(1), whole_number(1)}, "column"),
      sine_of("column", "sine"),
      vmap_node("_remove_batch_dim",
                {tensor_called("sine"), whole_number(1), whole_number(3), whole_number(-1)}, "y"),
      vmap_node("_vmap_decrement_nesting", {})};
  g.outputs.push_back(tensor_called("y"));
  for (const char* name : {"x", "y"}) describe_tensor(g, name, {2, 3});
  for (const char* name : {"column", "sine"}) describe_tensor(g, name, {2});
  return g;
}

std::vector<std::string> ops_in(const Pt2Graph& g) {
  std::vector<std::string> out;
  for (const Pt2Node& node : g.nodes) out.push_back(node.op);
  return out;
}

TEST(Pt2Vmap, ARegionIsAMapOverSlices) {
  Pt2Graph g = sines_of_columns();
  pt2::map_regions(g);
  pt2::verify_graph(g, "test");
  EXPECT_THAT(ops_in(g),
              ::testing::ElementsAre("aten.movedim.int", "map_impl", "aten.movedim.int"));
  EXPECT_THAT(ops_in(*g.nodes[1].inputs[0].value.graph),
              ::testing::ElementsAre("aten.sin.default"));
  EXPECT_EQ(g.nodes[2].outputs[0].text, "y");
}

TEST(Pt2Vmap, LevelsWithinLevelsAreMapsInBodies) {
  Pt2Program p = read_pt2(source_path("tests/data/models/vmaps.pt2"));
  size_t inner = 0;
  for (const Pt2Node& node : p.graph.nodes)
    if (node.op == "map_impl")
      for (const Pt2Node& n : node.inputs[0].value.graph->nodes) inner += n.op == "map_impl";
  EXPECT_EQ(inner, 1u);
}

TEST(Pt2Vmap, WhatHasNoMapIsRefusedByName) {
  using Change = void (*)(Pt2Graph&);
  const std::pair<Change, const char*> cases[] = {
      {[](Pt2Graph& g) { g.nodes[1].inputs[1].value.text = "same"; }, "randomness 'same'"},
      {[](Pt2Graph& g) { g.nodes.pop_back(); }, "nothing ends its level"},
      {[](Pt2Graph& g) { g.nodes[2].inputs[1].value.integer = 2; }, "dimension 2 of x is out of"},
      {[](Pt2Graph& g) { g.nodes[2].inputs.pop_back(), g.nodes[2].inputs.pop_back(); },
       "argument 1 is missing"},
      {[](Pt2Graph& g) { g.nodes.erase(g.nodes.begin() + 2, g.nodes.begin() + 5); },
       "vmap over no tensor"}};
  for (const auto& [change, reason] : cases) {
    Pt2Graph g = sines_of_columns();
    change(g);
    EXPECT_THAT(refusal_of([&] { pt2::map_regions(g); }).message, HasSubstr(reason));
  }
}

TEST(Pt2Vmap, LevelsWithoutEndAreRefused) {
  Pt2Graph g = sines_of_columns();
  std::vector<Pt2Node> begins(5000, g.nodes[1]), ends(5000, g.nodes[5]);
  begins.insert(begins.end(), g.nodes.begin() + 1, g.nodes.end());
  begins.insert(begins.end(), ends.begin(), ends.end());
  g.nodes = std::move(begins);
  EXPECT_EQ(refusal_of([&] { pt2::map_regions(g); }).code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace tenon::formats
