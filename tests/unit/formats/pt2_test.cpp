// Reading .pt2 archives: what a program holds, and all the models at hand.
#include "formats/pt2/pt2.h"

#include <set>

#include "formats/formats.h"
#include "formats/safetensors.h"
#include "small_archive.h"
#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallArchive;

std::string model_path(const std::string& name) { return own_recording("models/" + name + ".pt2"); }

TEST(Pt2, ReadsTheSmallArchive) {
  Pt2Program p = SmallArchive().read();
  EXPECT_EQ(p.name, "model");
  EXPECT_EQ(p.schema_minor, 20);
  ASSERT_EQ(p.graph.nodes.size(), 2u);
  EXPECT_EQ(p.graph.nodes[0].op, "aten.linear.default");
  EXPECT_EQ(p.graph.nodes[0].kind, Pt2TargetKind::op);
  EXPECT_EQ(p.graph.nodes[0].inputs[1].name, "weight");
  EXPECT_EQ(p.graph.nodes[0].inputs[1].value.text, "p_w");
  EXPECT_EQ(p.graph.nodes[0].stack_trace, "File \"m.py\"");
  const Pt2TensorMeta& x = p.graph.tensors.at("x");
  EXPECT_EQ(x.sizes[0].expr, p.symbols->find_symbol("s7"));
  EXPECT_EQ(x.sizes[0].hint, SymValue::of_int(4));
  EXPECT_TRUE(x.sizes[1].expr->is_integer(3));
  ASSERT_EQ(p.ranges.size(), 1u);
  EXPECT_EQ(p.ranges[0].min, 0);  // of the 2 that the exporter writes where it is told no range
  EXPECT_EQ(p.ranges[0].traced_min, 2);
  EXPECT_FALSE(p.ranges[0].max.has_value());
  ASSERT_EQ(p.guards.size(), 2u);
  EXPECT_NE(p.guards[0].expr, nullptr);
  EXPECT_EQ(p.guards[1].expr, nullptr);
  EXPECT_NE(p.guards[1].problem, "");
  const Pt2Weight* w = p.find_weight(p.inputs[0]);
  ASSERT_NE(w, nullptr);
  EXPECT_TRUE(w->is_parameter);
  EXPECT_EQ(as_text(w->storage.span), std::string(24, 'w'));
  EXPECT_EQ(p.find_weight(p.inputs[1]), &p.constants[0]);
  EXPECT_EQ(p.find_weight(p.inputs[2]), nullptr);
  ASSERT_TRUE(p.in_tree.has_value());
  EXPECT_EQ(p.in_tree->leaf_count(), 1u);
  EXPECT_EQ(p.out_tree->kind, Pt2Tree::Kind::leaf);
  EXPECT_THAT(p.argument_names, ElementsAre("x"));
}

TEST(Pt2, ReadsEverySharedModel) {
  auto files = testing::recorded_models(".pt2");
  for (const std::string& file : files) {
    Pt2Program p = read_pt2(file);
    EXPECT_GT(p.graph.nodes.size(), 0u) << file;
    EXPECT_TRUE(p.in_tree && p.out_tree) << file;
    for (const Pt2Node& node : p.graph.nodes)
      EXPECT_NE(node.kind, Pt2TargetKind::unknown) << file << ": " << node.target;
    for (const Pt2Guard& guard : p.guards) EXPECT_EQ(guard.problem, "") << file;
    for (const Pt2Range& range : p.ranges) EXPECT_NE(range.expr, nullptr) << file << range.text;
    for (const auto* weights : {&p.weights, &p.constants})
      for (const Pt2Weight& w : *weights)
        EXPECT_EQ(reinterpret_cast<uintptr_t>(w.storage.span.data()) % 64, 0u);
    EXPECT_EQ(find_format(file).name, "pt2");
  }
}

// Every expression of every model, with the values that its symbols had at export, gives its hint.
TEST(Pt2, HintsOfTheSharedModelsFollowFromTheirExpressions) {
  size_t compared = 0;
  for (const std::string& file : testing::recorded_models(".pt2")) {
    Pt2Program p = read_pt2(file);
    std::map<const Expr*, SymValue> symbols;
    for (const auto& [name, meta] : p.graph.tensors)
      for (const Pt2Sym& size : meta.sizes)
        if (size.expr->is_symbol() && size.hint) symbols[size.expr] = *size.hint;
    for (const auto& [name, sym] : p.graph.symbols)
      if (sym.expr->is_symbol() && sym.hint) symbols[sym.expr] = *sym.hint;
    auto lookup = [&](const Expr* symbol) {
      auto at = symbols.find(symbol);
      return at == symbols.end() ? std::nullopt : std::optional(at->second);
    };
    auto compare = [&](const Pt2Sym& sym) {
      if (!sym.hint) return;
      EXPECT_EQ(evaluate(sym.expr, lookup), *sym.hint) << file << ": " << to_text(sym);
      ++compared;
    };
    for (const auto& [name, meta] : p.graph.tensors) {
      for (const Pt2Sym& size : meta.sizes) compare(size);
      for (const Pt2Sym& stride : meta.strides) compare(stride);
    }
    for (const auto& [name, sym] : p.graph.symbols) compare(sym);
  }
  EXPECT_GT(compared, 500u);
}

// The recorded inputs and outputs are numbered as the trees flatten.
TEST(Pt2, SignaturesOfTheSharedModelsMatchTheRecordings) {
  for (const std::string& file : testing::recorded_models(".pt2")) {
    Pt2Program p = read_pt2(file);
    Safetensors io = read_safetensors(file.substr(0, file.size() - 4) + ".io.safetensors");
    size_t leaf = 0;
    for (const Pt2Input& input : p.inputs) {
      if (p.find_weight(input)) continue;
      const auto at = io.tensors.find("in." + std::to_string(leaf++));
      if (input.kind != Pt2InputKind::user_input || input.value.kind != Pt2Kind::tensor) continue;
      ASSERT_NE(at, io.tensors.end()) << file << ": " << input.name;
      const Pt2TensorMeta& meta = p.graph.tensors.at(input.name);
      EXPECT_EQ(at->second.dtype, meta.dtype) << file << ": " << input.name;
      EXPECT_EQ(at->second.sizes.size(), meta.sizes.size()) << file << ": " << input.name;
    }
  }
}

TEST(Pt2, KeepsTiedWeightsOnOneRecord) {
  Pt2Program p = read_pt2(model_path("fmt_tied"));
  std::map<std::string, std::vector<const Pt2Weight*>> by_record;
  for (const Pt2Weight& w : p.weights) by_record[w.record].push_back(&w);
  bool shared = false;
  for (const auto& [record, weights] : by_record)
    for (const Pt2Weight* w : weights) {
      EXPECT_EQ(w->storage.span.data(), weights[0]->storage.span.data());
      shared = shared || weights.size() > 1;
    }
  EXPECT_TRUE(shared);
  auto view = std::ranges::find_if(p.weights, [](const Pt2Weight& w) { return w.offset == 9; });
  ASSERT_NE(view, p.weights.end());
  EXPECT_THAT(view->strides, ElementsAre(4, 1));
}

TEST(Pt2, ReadsSubgraphsOfHigherOrderOps) {
  Pt2Program p = read_pt2(model_path("hop_cond"));
  auto cond = std::ranges::find(p.graph.nodes, std::string("cond"), &Pt2Node::op);
  ASSERT_NE(cond, p.graph.nodes.end());
  EXPECT_EQ(cond->kind, Pt2TargetKind::higher_order);
  EXPECT_EQ(cond->hop_single_tensor_return, false);
  const Pt2Argument& branch = cond->inputs[1].value;
  ASSERT_EQ(branch.kind, Pt2Kind::graph);
  EXPECT_EQ(branch.text, "true_graph_0");
  EXPECT_EQ(branch.graph->inputs.size(), cond->inputs[3].value.items.size());
}

TEST(Pt2, ReadsConstantsAndContainersAmongTheInputs) {
  Pt2Program p = read_pt2(model_path("fmt_inputs"));
  EXPECT_EQ(p.inputs[1].kind, Pt2InputKind::constant_input);
  EXPECT_EQ(p.inputs[1].name, "scale");
  EXPECT_EQ(p.inputs[1].value.integer, 4);
  ASSERT_TRUE(p.in_tree.has_value());
  EXPECT_THAT(p.in_tree->children[0].children[2].keys, ElementsAre("shift", "parts"));
  EXPECT_EQ(p.in_tree->leaf_count(), 6u);
  EXPECT_THAT(p.argument_names, ElementsAre("x", "scale", "opts", "bias"));
  EXPECT_EQ(p.outputs[2].value.kind, Pt2Kind::integer);
  EXPECT_EQ(p.outputs[3].value.kind, Pt2Kind::none);
}

TEST(Pt2, TellsMutationsAndGradientsFromResults) {
  auto kinds = [](const std::string& model) {
    std::set<Pt2OutputKind> found;
    for (const Pt2Output& output : read_pt2(model_path(model)).outputs) found.insert(output.kind);
    return found;
  };
  EXPECT_TRUE(kinds("fmt_mutation_core").contains(Pt2OutputKind::user_input_mutation));
  EXPECT_TRUE(kinds("fmt_mutation_core").contains(Pt2OutputKind::buffer_mutation));
  EXPECT_TRUE(kinds("mlp_digits_joint").contains(Pt2OutputKind::gradient_to_parameter));
  EXPECT_TRUE(kinds("mlp_digits_joint").contains(Pt2OutputKind::loss_output));
}

TEST(Pt2, ReadsTheDtypesOfTheFormat) {
  Pt2Program p = read_pt2(model_path("fmt_dtypes"));
  std::set<Dtype> found;
  for (const auto* weights : {&p.weights, &p.constants})
    for (const Pt2Weight& w : *weights) found.insert(w.dtype);
  for (Dtype dtype : {Dtype::u8, Dtype::i64, Dtype::f16, Dtype::bf16, Dtype::f64, Dtype::bool_})
    EXPECT_TRUE(found.contains(dtype)) << name_of(dtype);
  EXPECT_TRUE(std::ranges::any_of(
      p.weights, [](const Pt2Weight& w) { return w.has_data && w.storage.span.empty(); }));
}

TEST(Pt2, ReadsListsWithGapsAndSymbols) {
  SmallArchive archive;
  archive.change_model(R"({"name": "weight", "arg": {"as_tensor": {"name": "p_w"}}, "kind": 1})",
                       R"({"name": "a", "arg": {"as_optional_tensors": [{"as_none": true},
           {"as_tensor": {"name": "x"}}]}, "kind": 2},
         {"name": "b", "arg": {"as_sym_ints": [{"as_name": "n"}, {"as_int": 3}]}, "kind": null},
         {"name": "c", "arg": {"as_ints": []}},
         {"name": "d", "arg": {"as_float": "-Infinity"}},
         {"name": "e", "arg": {"as_memory_format": 2}},
         {"name": "f", "arg": {"as_string_to_argument": {"k": {"as_bool": true}}}},
         {"name": "g", "arg": {"as_int_lists": [[1], [2, 3]]}},
         {"name": "h", "arg": {"as_scalar_type": 13}})");
  archive.change_model(R"("nodes": [)", R"("nodes": [
   {"target": "torch.ops.aten.sym_size.int", "inputs": [], "outputs":
     [{"as_sym_int": {"as_name": "n"}}], "metadata": {}},)");
  archive.change_model(
      R"("sym_int_values": {})",
      R"j("sym_int_values": {"n": {"as_expr": {"expr_str": "Symbol('u0', integer=True)",
          "hint": null}}})j");
  Pt2Program p = archive.read();
  const auto& in = p.graph.nodes[1].inputs;
  EXPECT_TRUE(in[1].is_keyword);
  EXPECT_EQ(in[1].value.items[0].kind, Pt2Kind::none);
  EXPECT_EQ(in[1].value.items[1].text, "x");
  EXPECT_EQ(in[2].value.items[0].kind, Pt2Kind::symbol);
  EXPECT_EQ(in[2].value.items[1].integer, 3);
  EXPECT_EQ(in[3].value.kind, Pt2Kind::list);
  EXPECT_EQ(in[3].value.element, Pt2Kind::integer);
  EXPECT_EQ(in[4].value.real, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(in[5].value.memory_format, MemoryFormat::channels_last);
  EXPECT_EQ(in[6].value.keys[0], "k");
  EXPECT_EQ(in[7].value.items[1].items[1].integer, 3);
  EXPECT_EQ(in[8].value.dtype, Dtype::bf16);
  EXPECT_FALSE(p.graph.symbols.at("n").hint.has_value());
}

TEST(Pt2, ReadsNamedTuples) {
  SmallArchive archive;
  archive.change_model(
      R"(\"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, )",
      R"(\"children_spec\": [{\"type\": \"collections.namedtuple\", \"context\": \"m.P\",)"
      R"( \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]}, )");
  archive.change_model(R"("treespec_namedtuple_fields": {})",
                       R"("treespec_namedtuple_fields": {"m.P": {"field_names": ["left"]}})");
  Pt2Program p = archive.read();
  const Pt2Tree& tuple = p.in_tree->children[0].children[0];
  EXPECT_EQ(tuple.kind, Pt2Tree::Kind::named_tuple);
  EXPECT_THAT(tuple.keys, ElementsAre("left"));
}

TEST(Pt2, ReadsDefaultDicts) {
  SmallArchive archive;
  archive.change_model(
      R"(\"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, )",
      R"(\"children_spec\": [{\"type\": \"collections.defaultdict\", \"context\": )"
      R"({\"default_factory_module\": \"builtins\", \"default_factory_name\": \"list\", )"
      R"(\"dict_context\": [\"q\"]}, )"
      R"(\"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]}, )");
  Pt2Program p = archive.read();
  const Pt2Tree& dict = p.in_tree->children[0].children[0];
  EXPECT_EQ(dict.kind, Pt2Tree::Kind::default_dict);
  EXPECT_THAT(dict.keys, ElementsAre("q"));
}

TEST(Pt2, ChoosesAmongSeveralPrograms) {
  SmallArchive archive;
  auto copy = [&](const std::string& before, const std::string& after) {
    archive.records[before + "second" + after] = archive.records.at(before + "model" + after);
  };
  copy("data/weights/", "_weights_config.json");
  copy("data/constants/", "_constants_config.json");
  copy("models/", ".json");
  auto refused = testing::refusal_of([&] { archive.read(); });
  EXPECT_EQ(refused.code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.message, HasSubstr("model, second"));
  EXPECT_EQ(archive.read({.program = "second"}).name, "second");
  EXPECT_THAT(testing::refusal_of([&] { archive.read({.program = "third"}); }).message,
              HasSubstr("third"));
}

TEST(Pt2, ReadsAnArchiveWithoutWeightsOnlyWhenToldTo) {
  SmallArchive archive;
  archive.records["data/weights/weight_0"] = "";
  EXPECT_THAT(testing::refusal_of([&] { archive.read(); }).message, HasSubstr("holds no weights"));
  Pt2Program p = archive.read({.random_weights = true});
  EXPECT_FALSE(p.weights[0].has_data);
  EXPECT_TRUE(p.constants[0].has_data);
}

TEST(Pt2, IgnoresUnknownFieldsRecordsAndEntriesThatNothingUses) {
  SmallArchive archive;
  archive.change_model(R"("torch_version": "2.13.0",)",
                       R"("torch_version": "9", "new_field": [1, {"a": null}],)");
  archive.change_model(R"("minor": 20)", R"("minor": 99)");
  archive.records["extra/note"] = "text";
  archive.records["data/sample_inputs/model.pt"] = "not even a zip";
  archive.records["data/constants/custom_obj_0"] = "pickle";
  archive.change("data/constants/model_constants_config.json", R"({"config": {)",
                 R"({"config": {"obj": {"path_name": "custom_obj_0", "is_param": false,
                     "use_pickle": true, "tensor_meta": null}, )");
  archive.records.erase("byteorder");
  EXPECT_EQ(archive.read().constants.size(), 1u);
}

}  // namespace
}  // namespace tenon::formats
