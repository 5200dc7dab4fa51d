// Numbers of archives that are computed from sizes, in the places of tensors.
#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_call.h"
#include "formats/pt2/pt2_import.h"
#include "graph/interpret.h"
#include "small_archive.h"

#include <tenon/ops.h>

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::named;
using testing::refusal_of;
using testing::replaced;
using testing::SmallArchive;
using testing::tensor_meta;
using testing::with_numbers;

std::vector<Tensor> run_model(const ImportedModel& model, std::vector<Tensor> leaves) {
  BoundCall call = bind_call(model, leaves);
  std::vector<Tensor> outputs(model.graph->outputs().size());
  Interpreter(model.graph).run(call.inputs, call.symbols, outputs);
  return outputs;
}

std::string with_dtype(const std::string& meta, const std::string& dtype) {
  return replaced(meta, R"("dtype": 7)", R"("dtype": )" + dtype);
}

constexpr const char* n = R"({"as_sym_int": {"as_name": "n"}})";
constexpr const char* q = R"({"as_sym_float": {"as_name": "q"}})";

/// forward(x) -> number - op(x, dtype): as decompositions of `2 - x` write it.
struct Difference {
  std::string number, op, dtype, result;
  bool has_dims;
};

Tensor run_model(const Difference& d, const Tensor& x) {
  const std::string meta = d.has_dims ? SmallArchive::dynamic_meta("3") : tensor_meta("", "");
  SmallArchive archive;
  with_numbers(archive)
      .change_model("aten.linear.default", d.op)
      .change_model(R"("name": "input")", R"("name": "self")")
      .change_model(R"({"name": "weight", "arg": )" + named("p_w"),
                    R"({"name": "dtype", "arg": {"as_scalar_type": )" + d.dtype + "}")
      .change_model("aten.add.Tensor", "aten.sub.Tensor")
      .change_model(R"("name": "self", "arg": )" + named("linear"),
                    R"("name": "self", "arg": )" + d.number)
      .change_model(R"("name": "other", "arg": )" + named("b_c"),
                    R"("name": "other", "arg": )" + named("linear"))
      .change_model(R"("linear": )" + SmallArchive::dynamic_meta("2"),
                    R"("linear": )" + with_dtype(meta, d.dtype))
      .change_model(R"("add": )" + SmallArchive::dynamic_meta("2"),
                    R"("add": )" + with_dtype(meta, d.result));
  return run_model(import_pt2(archive.read()), {x})[0];
}

TEST(Pt2Numbers, RealNumbersAreAsExactAsDoubles) {
  Tensor found = run_model(Difference{q, "aten.to.dtype", "8", "8", true}, ones({2, 3}));
  EXPECT_EQ(found.dtype(), Dtype::f64);
  EXPECT_EQ(found.to_vector<double>(), std::vector<double>(6, 2 / 3.0 - 1));
}

TEST(Pt2Numbers, NumbersDoNotWidenTensorsOfTheirCategory) {
  const std::tuple<Difference, Dtype, double> cases[] = {
      {{n, "aten.sum.default", "4", "4", false}, Dtype::i32, -4},
      {{q, "aten.sum.default", "6", "6", false}, Dtype::f16, -5.33203125},
      {{q, "aten.to.dtype", "4", "7", true}, Dtype::f32, 2 / 3.0f - 1},
      {{n, "aten.to.dtype", "4", "4", true}, Dtype::i32, 1},
      {{n, "aten.sum.default", "7", "7", false}, Dtype::f32, -4},
  };
  for (const auto& [difference, dtype, first] : cases) {
    Tensor found = run_model(difference, ones({2, 3}));
    EXPECT_EQ(found.dtype(), dtype);
    EXPECT_EQ(found.to(Dtype::f64).reshape({-1}).to_vector<double>()[0], first) << dtype;
  }
}

// torch.tensor([x.shape[0], ...]) leaves such a node behind.
TEST(Pt2Numbers, QuestionsAboutDtypesAreLeftOut) {
  SmallArchive archive;
  archive.change_model(R"("nodes": [)", R"("nodes": [
    {"target": "torch.ops.aten.promote_types.default", "inputs": [
      {"name": "type1", "arg": {"as_scalar_type": 5}, "kind": 1},
      {"name": "type2", "arg": {"as_scalar_type": 5}, "kind": 1}],
     "outputs": [{"as_none": true}], "metadata": {}},)");
  Pt2Program program = archive.read();
  EXPECT_EQ(program.graph.nodes.size(), 2u);
  EXPECT_EQ(unsupported_ops(program), "");
}

TEST(Pt2Numbers, GuardsThatDivideByZeroDoNotHold) {
  const std::string guard = "L['x'].size()[1] % L['x'].size()[0] != 1";
  Pt2Program program = SmallArchive().change_model("what?", guard).read();
  ImportedModel model = import_pt2(program);
  auto bind = [&](int64_t rows) {
    Tensor x = zeros({rows, 3});
    bind_call(model, {&x, 1});
  };
  bind(3);
  for (int64_t rows : {0, 2})
    EXPECT_THAT(refusal_of([&] { bind(rows); }).message, HasSubstr(guard)) << rows;
}

// Strict exports give tied weights one input.
TEST(Pt2Numbers, WeightsHaveAllNamesOfTheStateDict) {
  SmallArchive archive;
  const std::string config = "data/weights/model_weights_config.json";
  const std::string entry = R"({"path_name": "weight_0", "is_param": true, "use_pickle": false, )"
                            R"("tensor_meta": )" +
                            tensor_meta("2,3", "3,1") + "}";
  archive.records[config] = R"({"config": {"fc.w": )" + entry + R"(, "tied.w": )" + entry + "}}";
  ImportedModel model = import_pt2(archive.read());
  EXPECT_EQ(model.inputs[0].names, (std::vector<std::string>{"fc.w", "tied.w"}));
}

}  // namespace
}  // namespace tenon::formats
