// What a .pt2 archive must not hold: each case is refused with a message that says why.
#include "formats/limits.h"
#include "formats/pt2/pt2.h"
#include "small_archive.h"
#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::named;
using testing::refusal_of;
using testing::SmallArchive;
using testing::tensor_meta;

constexpr const char* kModel = "models/model.json";
constexpr const char* kWeights = "data/weights/model_weights_config.json";

void expect_refusal(const SmallArchive& archive, const std::string& reason,
                    ErrorCode code = ErrorCode::bad_file) {
  auto refused = refusal_of([&] { archive.read(); });
  EXPECT_EQ(refused.code, code) << refused.message;
  EXPECT_THAT(refused.message, AllOf(HasSubstr("small.pt2"), HasSubstr(reason)));
}

void expect_model_refusal(const std::string& from, const std::string& to, const std::string& reason,
                          ErrorCode code = ErrorCode::bad_file) {
  expect_refusal(SmallArchive().change_model(from, to), reason, code);
}

void expect_weight_refusal(const std::string& from, const std::string& to,
                           const std::string& reason, ErrorCode code = ErrorCode::bad_file) {
  expect_refusal(SmallArchive().change(kWeights, from, to), reason, code);
}

TEST(Pt2Refusals, MissingRecords) {
  for (std::string record :
       {"archive_format", "archive_version", ".data/version", kModel, kWeights,
        "data/constants/model_constants_config.json", "data/weights/weight_0"}) {
    SmallArchive archive;
    archive.records.erase(record);
    std::string reason = record == kModel ? "models/*.json" : "is missing";
    expect_refusal(archive, reason);
  }
}

TEST(Pt2Refusals, Versions) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"archive_format", "pt3", "archive_format"},
      {"archive_version", "1", "archive_version"},
      {".data/version", "11", ".data/version"},
      {".data/version", "x", ".data/version"},
      {"byteorder", "big", "byteorder"},
      {"archive_format", std::string(100, 'x'), "short"}};
  for (const auto& [record, content, reason] : cases) {
    SmallArchive archive;
    archive.records[record] = content;
    expect_refusal(archive, reason);
  }
  expect_model_refusal(R"("major": 8)", R"("major": 9)", "made by PyTorch 2.13.0, schema 9.20");
  expect_model_refusal(R"("schema_version")", R"("schema")", "\"schema_version\" is missing");
}

TEST(Pt2Refusals, OldLayouts) {
  SmallArchive flat;
  flat.records.clear();
  flat.records["!serialized_exported_program.json"] = "{}";
  flat.records["!serialized_state_dict.pt"] = "";
  expect_refusal(flat, "older PyTorch");
  SmallArchive pickled;
  pickled.records["data/weights/model.pt"] = "";
  expect_refusal(pickled, "older PyTorch");
}

TEST(Pt2Refusals, SeveralRoots) {
  SmallArchive archive;
  archive.records["!other/file"] = "";
  expect_refusal(archive, "below one folder");
}

TEST(Pt2Refusals, Json) {
  expect_model_refusal(R"("minor": 20})", R"("minor": 20)", "line ");
  expect_model_refusal(R"("minor": 20)", R"("minor": 20.5)", "");
  expect_model_refusal(R"("minor": 20)", R"("minor": "x")", "schema_version.minor");
  expect_model_refusal(R"("minor": 20)", R"("minor": 99999999999999999999)", "64 bits");
  expect_model_refusal(R"("opset_version": {"aten": 10})",
                       R"("x": )" + std::string(600, '[') + std::string(600, ']'), "deeper");
  expect_model_refusal(R"("name": "weight", "arg": {"as_tensor")",
                       R"("name": "weight", "arg": {"as_int": 1, "as_tensor")",
                       "graph_module.graph.nodes[0].inputs[1].arg: expected exactly one member");
  expect_model_refusal(R"("name": "weight", "arg": {"as_tensor")",
                       R"("name": "weight", "arg": {"as_other")", "\"as_other\"");
  expect_model_refusal(R"("name": "weight", "arg": )" + named("p_w") + R"(, "kind": 1)",
                       R"("name": "weight", "arg": )" + named("p_w") + R"(, "kind": 3)", "keyword");
  expect_model_refusal(R"({"name": "weight")", R"({"name": "we\u0000ight")", "NUL");
}

TEST(Pt2Refusals, EnumNumbersAndKinds) {
  auto replace_argument = [](const std::string& argument) {
    return SmallArchive().change_model(R"({"name": "weight", "arg": )" + named("p_w"),
                                       R"({"name": "weight", "arg": )" + argument);
  };
  expect_refusal(replace_argument(R"({"as_scalar_type": 14})"), "number of a dtype");
  expect_refusal(replace_argument(R"({"as_scalar_type": 0})"), "number of a dtype");
  expect_refusal(replace_argument(R"({"as_scalar_type": 28})"), "uint16", ErrorCode::unsupported);
  expect_refusal(replace_argument(R"({"as_memory_format": 5})"), "memory format");
  expect_refusal(replace_argument(R"({"as_layout": 9})"), "number of a layout");
  expect_refusal(replace_argument(R"({"as_layout": 2})"), "sparse_csr", ErrorCode::unsupported);
  expect_refusal(replace_argument(R"({"as_sym_int": {"as_float": 1.0}})"), "as_name or as_int");
  expect_refusal(replace_argument(R"({"as_custom_obj": {"name": "o", "class_fqn": "C.D"}})"), "C.D",
                 ErrorCode::unsupported);
  expect_refusal(replace_argument(R"({"as_int": 1.5})"), "expected an integer");
}

TEST(Pt2Refusals, NamesInGraphs) {
  expect_model_refusal(R"({"name": "self", "arg": {"as_tensor": {"name": "linear"}})",
                       R"({"name": "self", "arg": {"as_tensor": {"name": "later"}})",
                       "uses the name later before it is defined");
  expect_model_refusal(R"("outputs": [)" + named("linear") + "]",
                       R"("outputs": [)" + named("x") + "]", "x is defined twice");
  expect_model_refusal(R"("linear": {"dtype")", R"("lin": {"dtype")",
                       "tensor linear is missing in tensor_values");
  expect_model_refusal(R"("sym_int_values": {})", R"("sym_int_values": {"x": {"as_int": 1}})",
                       "x is used twice");
  expect_model_refusal(R"("linear": {"dtype")", R"("x": {"dtype")", "occurs twice");
}

TEST(Pt2Refusals, SignaturesThatDisagreeWithTheGraph) {
  expect_model_refusal(R"(, "buffer_name": "c")", R"(, "buffer_name": "d")",
                       "nothing in the archive is called d");
  expect_model_refusal(R"({"user_input": {"arg": )" + named("x") + "}}",
                       R"({"user_input": {"arg": )" + named("y") + "}}", "disagree");
  expect_model_refusal(",\n {\"user_input\": {\"arg\": " + named("x") + "}}", "",
                       "the signature has 2 inputs, the graph 3");
  expect_model_refusal(R"({"parameter": {"arg": {"name": "p_w"})",
                       R"({"parameter": {"arg": {"name": "q_w"})", "the signature says q_w");
  expect_model_refusal(R"("output_specs": [)", R"("output_specs": [{"user_output": {"arg":
                       {"as_none": true}}}, )",
                       "2 outputs");
  expect_model_refusal(R"({"user_output": {"arg": )" + named("add") + "}}",
                       R"({"buffer_mutation": {"arg": {"name": "add"}, "buffer_name": "z"}})",
                       "no input is called z");
  expect_model_refusal(R"({"user_output": {"arg": )" + named("add") + "}}",
                       R"({"token": {"arg": {"name": "gone"}}})", "the graph has no token gone");
  expect_model_refusal(R"("torch.ops.aten.add.Tensor")", R"("torch.ops.higher_order.with_effects")",
                       "expected a token and an op");
  expect_model_refusal(
      R"({"buffer": {"arg": {"name": "b_c"}, "buffer_name": "c", "persistent": false}})",
      R"({"custom_obj": {"arg": {"name": "b_c", "class_fqn": "K"},
                           "custom_obj_name": "c"}})",
      "class K", ErrorCode::unsupported);
  expect_model_refusal(R"(\"context\": \"[]\")", R"(\"context\": \"[1]\")", "one key for each");
  expect_model_refusal(
      R"("out_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]")",
      R"("out_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": null, )"
      R"(\"children_spec\": []}]")",
      "out_spec has 0 leaves");
}

TEST(Pt2Refusals, ArityOfSubgraphs) {
  SmallArchive archive;
  archive.change_model(R"("target": "torch.ops.aten.linear.default")",
                       R"("target": "torch.ops.higher_order.while_loop")");
  expect_refusal(archive, "arguments");
  const std::string graph =
      R"({"as_graph": {"name": "g", "graph": {"inputs": [)" + named("a") + R"(], "outputs": [)" +
      named("a") + R"(], "nodes": [], "tensor_values": {"a": )" + tensor_meta("2", "1") + "}}}}";
  auto loop = [&](const std::string& operands) {
    return SmallArchive()
        .change_model(R"("target": "torch.ops.aten.linear.default", "inputs": [)",
                      R"("target": "torch.ops.higher_order.while_loop", "inputs": [
                          {"name": "", "arg": )" +
                          graph + R"(}, {"name": "", "arg": )" + graph + R"(},
                          {"name": "", "arg": {"as_tensors": [)" +
                          operands + R"(]}},
                          {"name": "", "arg": {"as_tensors": []}}]},
                         {"target": "torch.ops.aten.linear.default", "inputs": [)")
        .change_model(R"({"as_tensors": []}}]})", R"({"as_tensors": []}}], "outputs": []})");
  };
  EXPECT_EQ(loop(R"({"name": "x"})").read().graph.nodes.size(), 3u);
  expect_refusal(loop(R"({"name": "x"}, {"name": "p_w"})"), "takes 1 inputs, but gets 2 operands");
  expect_refusal(loop(R"({"name": "a"})"), "uses the name a before it is defined");
}

TEST(Pt2Refusals, Weights) {
  expect_weight_refusal("weight_0", "../weight_0", "record name");
  expect_weight_refusal("weight_0", "weight_", "record name");
  expect_weight_refusal("weight_0", "tensor_0", "record name");
  expect_weight_refusal("weight_0", "weight_7", "missing");
  expect_weight_refusal(R"("use_pickle": false)", R"("use_pickle": true)", "subclass",
                        ErrorCode::unsupported);
  expect_weight_refusal(R"("layout": 7)", R"("layout": 1)", "sparse_coo", ErrorCode::unsupported);
  expect_weight_refusal(R"("type": "cpu")", R"("type": "meta")", "meta", ErrorCode::unsupported);
  expect_weight_refusal(R"("dtype": 7)", R"("dtype": 0)", "number of a dtype");
  expect_weight_refusal(R"("dtype": 7)", R"("dtype": 5)", "beyond its storage");
  expect_weight_refusal(R"("dtype": 7)", R"("dtype": 4)", "stored as i32, but the graph says f32");
  expect_weight_refusal(R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": 1})",
                        "beyond its storage");
  expect_weight_refusal(R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": -1})",
                        "offset of 0 or more");
  expect_weight_refusal(R"("strides": [{"as_int": 3})", R"("strides": [{"as_int": -3})",
                        "strides of 0 or more");
  expect_weight_refusal(R"("strides": [{"as_int": 3})",
                        R"("strides": [{"as_int": 9223372036854775807})", "beyond its storage");
  expect_weight_refusal(R"("sizes": [{"as_int": 2})", R"("sizes": [{"as_int": -2})", "0 or more");
  expect_weight_refusal(R"("sizes": [{"as_int": 2})",
                        R"("sizes": [{"as_int": 4611686018427387904})", "64 bits");
  expect_weight_refusal(R"("sizes": [{"as_int": 2})", R"("sizes": [{"as_int": 1})", "sizes differ");
  SmallArchive odd;
  odd.records["data/weights/weight_0"] = std::string(25, 'w');
  expect_refusal(odd, "multiple of 4");
  SmallArchive larger;
  larger.records["data/weights/weight_0"] = std::string(240, 'w');
  EXPECT_EQ(larger.read().weights[0].storage.span.size(), 240u);
}

TEST(Pt2Refusals, LayoutsOfValues) {
  const std::string bias = R"("b_c": )" + tensor_meta("2", "1");
  expect_model_refusal(bias, R"("b_c": )" + tensor_meta("-2", "1"), "sizes of 0 or more");
  expect_model_refusal(bias, R"("b_c": )" + tensor_meta("2", "-1"), "strides of 0 or more");
  expect_model_refusal(bias, R"("b_c": )" + tensor_meta("2", "1", "7", "-1"),
                       "a storage offset of 0 or more");
}

TEST(Pt2Refusals, Ranks) {
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  SmallArchive archive;
  std::string& config = archive.records[kWeights];
  config = testing::replaced(config, tensor_meta("2,3", "3,1"), tensor_meta(ones, ones));
  expect_refusal(archive, "at most 64 dimensions");
}

TEST(Pt2Refusals, Expressions) {
  const std::string add = R"("add": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": ")";
  expect_model_refusal(add + "Symbol('s7', integer=True)", add + "__import__('os')", "expr_str");
  expect_model_refusal(add, add + std::string(70000, ' '), "65536");
  expect_model_refusal(R"("min_val": 2, "max_val": null)", R"("min_val": 2, "max_val": 1)",
                       "is empty");
}

TEST(Pt2Refusals, TotalSize) {
  SmallArchive archive;
  auto refused = refusal_of([&] { archive.read({.max_size = 1000}); });
  EXPECT_THAT(refused.message, HasSubstr("--max-size"));
}

// Whatever byte is damaged, the reader answers: a program or a UserError.
TEST(Pt2Refusals, SurviveDamageEverywhere) {
  const SmallArchive archive;
  const std::string& model = archive.records.at(kModel);
  for (size_t at = 0; at < model.size(); at += 3) {
    for (char change : {'0', '"', '{', ']', '\xFF'}) {
      SmallArchive damaged = archive;
      damaged.records[kModel][at] = change;
      try {
        damaged.read();
      } catch (const UserError&) {
      }
    }
  }
  const std::string bytes(as_text(archive.bytes().span));
  for (size_t length = 0; length < bytes.size(); length += 7)
    EXPECT_THROW(read_pt2(testing::own_bytes(bytes.substr(0, length)), "short.pt2"), UserError);
}

}  // namespace
}  // namespace tenon::formats
