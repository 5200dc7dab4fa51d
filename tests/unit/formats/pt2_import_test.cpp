// Archives become graphs with weights: translation, input checks, effects, and what is refused.
#include "formats/pt2/pt2_import.h"
#include "core/sym/shape_env.h"

#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_call.h"
#include "formats/tensors.h"
#include "graph/interpret.h"
#include "graph/verify.h"
#include "small_archive.h"

#include <tenon/ops.h>

#include <cmath>
#include <ctime>
#include <limits>

namespace tenon::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::named;
using testing::recorded_models;
using testing::refusal_of;
using testing::SmallArchive;
using testing::tensor_meta;

std::string bytes_of(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// forward(x) -> linear(x, [[1, 2, 3], [4, 5, 6]]) + [10, 20], x of any number of rows but 5.
SmallArchive linear_archive() {
  SmallArchive archive;
  archive.records["data/weights/weight_0"] = bytes_of({1, 2, 3, 4, 5, 6});
  archive.records["data/constants/tensor_1"] = bytes_of({10, 20});
  return archive;
}

std::vector<Tensor> run(const ImportedModel& model, std::vector<Tensor> leaves) {
  BoundCall call = bind_call(model, leaves);
  std::vector<Tensor> outputs(model.graph->outputs().size());
  Interpreter(model.graph).run(call.inputs, call.symbols, outputs);
  return outputs;
}

void expect_import_refusal(const std::string& from, const std::string& to,
                           const std::string& reason, ErrorCode code = ErrorCode::bad_file) {
  Pt2Program program = linear_archive().change_model(from, to).read();
  auto refused = refusal_of([&] { import_pt2(program); });
  EXPECT_EQ(refused.code, code) << refused.message;
  EXPECT_THAT(refused.message, HasSubstr(reason));
}

TEST(Pt2Import, RunsTheSmallArchiveAtOtherSizes) {
  Pt2Program program = linear_archive().read();
  ImportedModel model = import_pt2(program);
  verify(*model.graph);
  ASSERT_EQ(model.leaves.size(), 1u);
  EXPECT_EQ(model.leaves[0].name, "x");
  for (int64_t rows : {2, 3}) {
    std::vector<float> ones(static_cast<size_t>(rows * 3), 1);
    std::vector<Tensor> outputs = run(model, {tensor(ones, {rows, 3})});
    std::vector<float> expected;
    for (int64_t i = 0; i < rows; ++i) expected.insert(expected.end(), {16, 35});
    EXPECT_EQ(outputs[0].to_vector<float>(), expected);
  }
}

// histogramdd gives a tensor and a list: its parts stand in the graph.
TEST(Pt2Import, TakesResultsThatAreTensorsAndLists) {
  const std::string cube = tensor_meta("2,2,2", "4,2,1"), edges = tensor_meta("3", "1");
  SmallArchive archive = linear_archive();
  archive.change_model("aten.linear.default", "aten.histogramdd.int_bins")
      .change_model(R"("name": "input")", R"("name": "self")")
      .change_model(R"({"name": "weight", "arg": )" + named("p_w"),
                    R"({"name": "bins", "arg": {"as_int": 2})")
      .change_model(named("linear") + R"(], "metadata": {"stack)",
                    named("linear") +
                        R"(, {"as_tensors": [{"name": "e0"}, {"name": "e1"}, {"name": "e2"}]}],
                           "metadata": {"stack)")
      .change_model(R"("linear": )" + SmallArchive::dynamic_meta("2"),
                    R"("linear": )" + cube + R"(, "e0": )" + edges + R"(, "e1": )" + edges +
                        R"(, "e2": )" + edges)
      .change_model(R"("add": )" + SmallArchive::dynamic_meta("2"), R"("add": )" + cube);
  Pt2Program program = archive.read();
  ImportedModel model = import_pt2(program);
  verify(*model.graph);
  Tensor points = tensor(std::vector<float>{0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1}, {4, 3});
  EXPECT_EQ(run(model, {points})[0].to_vector<float>(),
            (std::vector<float>{11, 20, 11, 20, 10, 21, 10, 21}));
  archive.change_model(R"(, {"name": "e2"})", "");
  Pt2Program too_few = archive.read();
  EXPECT_THAT(refusal_of([&] { import_pt2(too_few); }).message,
              HasSubstr("gives 4 tensors, the archive has 3 results for it"));
}

TEST(Pt2Import, KeepsNamesSymbolsAndSourceLines) {
  Pt2Program program =
      linear_archive()
          .change_model(
              R"(File \"m.py\")",
              R"(File \"a.py\", line 3, in f\n  g()\n File \"m.py\", line 7, in forward\n  x)")
          .read();
  ImportedModel model = import_pt2(program);
  const Node& linear = model.graph->node(0);
  EXPECT_EQ(linear.name, "linear");
  EXPECT_EQ(linear.where.file, "m.py");
  EXPECT_EQ(linear.where.line, 7);
  EXPECT_EQ(linear.where.function, "forward");
  ASSERT_EQ(model.graph->symbols.size(), 1u);
  EXPECT_EQ(model.graph->shape_env->info(model.graph->symbols[0].symbol).name, "s7");
  EXPECT_EQ(model.graph->shape_env->int_hint(model.graph->value(linear.first_result).meta.sizes[0]),
            4);
}

TEST(Pt2Import, WeightsAreViewsOfTheFile) {
  Pt2Program program = linear_archive().read();
  ImportedModel model = import_pt2(program);
  EXPECT_EQ(model.inputs[0].tensor.data(), program.weights[0].storage.span.data());
  EXPECT_EQ(model.inputs[0].names, std::vector<std::string>{"fc.w"});
  EXPECT_EQ(model.inputs[1].kind, ModelInputKind::buffer);
}

TEST(Pt2Import, WeightsThatAreWrittenAreCopies) {
  SmallArchive archive = linear_archive();
  archive.change_model("aten.add.Tensor", "aten.add_.Tensor")
      .change_model(R"("name": "self", "arg": )" + named("linear"),
                    R"("name": "self", "arg": )" + named("b_c"))
      .change_model(R"("name": "other", "arg": )" + named("b_c"),
                    R"("name": "other", "arg": )" + named("b_c"))
      .change_model(R"("add": )" + SmallArchive::dynamic_meta("2"),
                    R"("add": )" + testing::tensor_meta("2", "1"));
  Pt2Program program = archive.read();
  ImportedModel model = import_pt2(program);
  Tensor buffer = model.inputs[1].tensor;
  EXPECT_NE(buffer.data(), program.constants[0].storage.span.data());
  run(model, {tensor(std::vector<float>(6, 0), {2, 3})});
  EXPECT_EQ(buffer.to_vector<float>(), (std::vector<float>{20, 40}));
  ImportedModel again = import_pt2(program);
  EXPECT_EQ(again.inputs[1].tensor.to_vector<float>(), (std::vector<float>{10, 20}));
}

// Time in proportion to their number: 40000 take half a second, a look at each pair took twenty.
TEST(Pt2Import, ManyWeightsMayShareOneStorage) {
  constexpr int n_views = 40000;
  Pt2Program program = linear_archive().read();
  const size_t n_inputs = program.inputs.size();
  for (int i = 0; i < n_views; ++i) {
    std::string name = "v" + std::to_string(100000 + i);  // behind "fc.w" in the order of names
    Pt2Weight view = program.weights[0];
    view.name = name;
    view.sizes = {1};
    view.strides = {i + 1};
    program.weights.push_back(view);
    Pt2Argument value;
    value.kind = Pt2Kind::tensor;
    value.text = name;
    program.inputs.push_back({Pt2InputKind::parameter, name, name, true, value});
    program.graph.inputs.push_back(value);
    Pt2TensorMeta meta = program.graph.tensors.at("p_w");
    meta.sizes.resize(1);
    meta.strides.resize(1);
    program.graph.tensors[name] = meta;
  }
  std::clock_t begin = std::clock();
  ImportedModel model = import_pt2(program);
  EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 8);
  ASSERT_EQ(model.graph->inputs().size(), n_inputs + n_views);
  auto group_of = [&](size_t i) {
    return model.graph->value(model.graph->inputs()[i]).alias_group;
  };
  EXPECT_NE(group_of(0), 0u);
  EXPECT_EQ(group_of(n_inputs), group_of(0));
  EXPECT_EQ(group_of(n_inputs + n_views - 1), group_of(0));
  EXPECT_EQ(model.inputs.back().tensor.data(), model.inputs[0].tensor.data());
}

// "s8" with an example value, as archives write it.
std::string open_number(const std::string& symbol, const std::string& hint) {
  return R"j({"as_expr": {"expr_str": "Symbol(')j" + symbol +
         R"j(', integer=True)", "hint": {"as_int": )j" + hint + "}}}";
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// A symbol that only a stride or the offset of an input shows is an input of its own.
TEST(Pt2Import, SymbolsOfStridesAndOffsetsAreBound) {
  std::string x = SmallArchive::dynamic_meta("3");
  std::string layout =
      changed(x, R"j("strides": [{"as_int": 3})j", R"j("strides": [)j" + open_number("s8", "5"));
  layout = changed(layout, R"j("storage_offset": {"as_int": 0})j",
                   R"j("storage_offset": )j" + open_number("s9", "2"));
  ImportedModel model =
      import_pt2(linear_archive().change_model(R"j("x": )j" + x, R"j("x": )j" + layout).read());
  ASSERT_EQ(model.symbols.size(), 3u);
  Tensor given = arange(20).to(Dtype::f32).as_strided({2, 3}, {7, 1}, 4);
  EXPECT_THAT(bind_call(model, {&given, 1}).symbols, ::testing::ElementsAre(2, 7, 4));
  EXPECT_EQ(run(model, {given})[0].dim(), 2);
}

// Where data decides where a view lies, a node behind it asks for its offset, or none does.
TEST(Pt2Import, OffsetsOfResultsNeedNotBeBound) {
  std::string linear = R"("linear": )" + SmallArchive::dynamic_meta("2");
  std::string moved = changed(linear, R"j("storage_offset": {"as_int": 0})j",
                              R"j("storage_offset": )j" + open_number("u9", "2"));
  ImportedModel model = import_pt2(linear_archive().change_model(linear, moved).read());
  EXPECT_EQ(model.symbols.size(), 1u);
  EXPECT_EQ(run(model, {ones({2, 3})})[0].dim(), 2);
}

TEST(Pt2Import, RefusesResultsThatContradictTheirOp) {
  std::string said = R"("add": )" + SmallArchive::dynamic_meta("2");
  expect_import_refusal(said, R"("add": )" + SmallArchive::dynamic_meta("3"),
                        "node 1 (aten.add.Tensor): shape is [s7, 2]");
  expect_import_refusal(said, R"("add": )" + testing::tensor_meta("2", "1"), "shape is [s7, 2]");
  expect_import_refusal(said, R"("add": )" + testing::tensor_meta("4,2", "2,1", "8"),
                        "dtype is f32");
}

TEST(Pt2Import, ANumberInATensorsPlaceKeepsTheDtype) {
  SmallArchive archive = linear_archive();
  archive.change_model(R"("name": "other", "arg": )" + named("b_c"),
                       R"("name": "other", "arg": {"as_float": 2.5})");
  Pt2Program program = archive.read();
  ImportedModel model = import_pt2(program);
  std::vector<Tensor> outputs = run(model, {tensor(std::vector<float>(6, 0), {2, 3})});
  EXPECT_EQ(outputs[0].dtype(), Dtype::f32);
  EXPECT_EQ(outputs[0].to_vector<float>(), (std::vector<float>(4, 2.5f)));
}

TEST(Pt2Import, AComplexNumberIsATensorOfTheResultsPrecision) {
  SmallArchive archive = linear_archive();
  archive.change_model(R"("name": "other", "arg": )" + named("b_c"),
                       R"("name": "other", "arg": {"as_complex": {"real": 2.5, "imag": -1.0}})");
  archive.change_model(R"("add": )" + SmallArchive::dynamic_meta("2"),
                       R"("add": )" + testing::replaced(SmallArchive::dynamic_meta("2"),
                                                        R"("dtype": 7)", R"("dtype": 10)"));
  Pt2Program program = archive.read();
  ImportedModel model = import_pt2(program);
  std::vector<Tensor> outputs = run(model, {tensor(std::vector<float>(6, 0), {2, 3})});
  EXPECT_EQ(outputs[0].dtype(), Dtype::c64);
  EXPECT_EQ(view_as_real(outputs[0]).to_vector<float>(),
            (std::vector<float>{2.5f, -1, 2.5f, -1, 2.5f, -1, 2.5f, -1}));
}

SmallArchive archive_with_constant(const std::string& value) {
  SmallArchive archive = linear_archive();
  return testing::with_constant(archive, value);
}

TEST(Pt2Import, ConstantsAreComparedAsNumbers) {
  auto refusal = [](const std::string& constant, Number given) -> std::string {
    Pt2Program program = archive_with_constant(constant).read();
    ImportedModel model = import_pt2(program);
    Tensor x = tensor(std::vector<float>(6, 0), {2, 3});
    try {
      bind_call(model, std::vector<Tensor>{x, number_tensor(given)});
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::string real = R"({"as_float": 2.5})", infinite = R"({"as_float": "Infinity"})";
  EXPECT_EQ(refusal(real, 2.5), "");
  EXPECT_EQ(refusal(infinite, inf), "");
  EXPECT_EQ(refusal(R"({"as_float": "NaN"})", std::nan("")), "");
  EXPECT_EQ(refusal(R"({"as_int": 3})", 3.0), "");
  EXPECT_EQ(refusal(R"({"as_bool": true})", true), "");
  EXPECT_EQ(refusal(real, 3.5),
            "input f was the constant 2.5 at export, found 3.5; export the model again to use "
            "another");
  EXPECT_THAT(refusal(infinite, -inf), HasSubstr("input f was the constant inf at export"));
  EXPECT_THAT(refusal(R"({"as_int": 3})", 4), HasSubstr("the constant 3 at export, found 4"));
}

TEST(Pt2Import, ConstantsThatTakeNoTensorRefuseIt) {
  auto refusal = [](const std::string& constant, const Tensor& given) {
    Pt2Program program = archive_with_constant(constant).read();
    ImportedModel model = import_pt2(program);
    Tensor leaves[] = {zeros({2, 3}), given};
    bind_call(model, std::vector<Tensor>{leaves[0], Tensor()});
    return refusal_of([&] { bind_call(model, leaves); }).message;
  };
  EXPECT_EQ(refusal(R"({"as_none": true})", ones({2})),
            "input f was fixed by the export, found the tensor f32[2]; export the model again to "
            "use one");
  EXPECT_THAT(refusal(R"({"as_string": "sum"})", ones({})), HasSubstr("the tensor f32[]"));
  EXPECT_THAT(refusal(R"({"as_int": 3})", zeros({1})), HasSubstr("the tensor f32[1]"));
}

TEST(Pt2Import, SizesThatTheExporterNeverTracedHaveGraphsOfTheirOwn) {
  Pt2Program program = linear_archive().read();
  ImportedModel usual = import_pt2(program);
  const Expr* rows = usual.symbols[0].symbol;
  auto conditions = [](const ImportedModel& model) {
    std::string text;
    for (const RecordedGuard& guard : model.graph->shape_env->guard_conditions())
      text += model.graph->shape_env->text(guard.condition) + "; ";
    return text;
  };
  EXPECT_EQ(conditions(usual), "s7 >= 2; ");
  for (int64_t n : {0, 1}) {
    ImportedModel model = import_pt2(program, {.hints = {{rows, n}}});
    EXPECT_EQ(conditions(model), message("s7 >= {}; s7 <= {}; ", n, n));
    std::vector<Tensor> outputs =
        run(model, {tensor(std::vector<float>(static_cast<size_t>(3 * n), 1), {n, 3})});
    EXPECT_EQ(outputs[0].to_vector<float>(),
              n == 0 ? std::vector<float>() : std::vector<float>({16, 35}));
  }
}

TEST(Pt2Import, InputsThatDoNotFitAreNamed) {
  Pt2Program program = linear_archive().change_model(R"("min_val": 2)", R"("min_val": 3)").read();
  ImportedModel model = import_pt2(program);
  auto refusal = [&](std::vector<Tensor> leaves) {
    return refusal_of([&] { bind_call(model, leaves); }).message;
  };
  auto zeros = [](std::vector<int64_t> sizes) { return make_tensor(IntList(sizes), Dtype::f32); };
  EXPECT_THAT(refusal({}), HasSubstr("x: f32[s7, 3]"));
  EXPECT_THAT(refusal({Tensor()}), HasSubstr("input x is missing"));
  EXPECT_THAT(refusal({zeros({2})}), HasSubstr("expected 2 dimensions"));
  EXPECT_THAT(refusal({zeros({2, 4})}), HasSubstr("dimension 1 must be 3, found 4"));
  EXPECT_THAT(refusal({make_tensor({2, 3}, Dtype::f64)}), HasSubstr("expected dtype f32"));
  EXPECT_THAT(refusal({zeros({1, 3})}),
              HasSubstr("dimension 0 of input x is 1, but the model was exported for s7 from 3"));
  EXPECT_THAT(refusal({zeros({5, 3})}), HasSubstr("L['x'].size()[0] != 5"));
}

TEST(Pt2Import, SizesThatNeedSolvingAreExact) {
  Pt2Expressions expressions;
  Pt2SymbolSource source{expressions.symbol("s"), 0, 0,
                         expressions.read("Add(Mul(Integer(2), Symbol('s')), Integer(1))")};
  EXPECT_EQ(solve_symbol(source, 9, {}), 4);
  EXPECT_THAT(refusal_of([&] { solve_symbol(source, 8, {}); }).message, HasSubstr("found 8"));
  source.solve = expressions.read("Integer(3)");
  EXPECT_EQ(refusal_of([&] { solve_symbol(source, 3, {}); }).code, ErrorCode::bad_file);
}

TEST(Pt2Import, AllMissingOpsAreListedWithCounts) {
  SmallArchive archive = linear_archive();
  archive.change_model("aten.linear.default", "aten.no_such.default")
      .change_model("torch.ops.aten.add.Tensor", "torch.ops.higher_order.no_such");
  Pt2Program program = archive.read();
  auto refused = refusal_of([&] { import_pt2(program); });
  EXPECT_EQ(refused.code, ErrorCode::unsupported);
  EXPECT_THAT(refused.message, AllOf(HasSubstr("2 ops"), HasSubstr("aten.no_such.default (1 time)"),
                                     HasSubstr("higher_order.no_such (1 time)")));
}

TEST(Pt2Import, ArgumentsThatDoNotFitTheSchemaAreRefused) {
  expect_import_refusal(R"("name": "weight")", R"("name": "wait")", "no argument wait");
  expect_import_refusal(R"("name": "other")", R"("name": "self")", "given twice");
  expect_import_refusal(R"("name": "other", "arg": )" + named("b_c"),
                        R"("name": "alpha", "arg": {"as_int": 2})", "argument other is missing");
  expect_import_refusal(R"("name": "other", "arg": )" + named("b_c"),
                        R"("name": "other", "arg": {"as_string": "1"})", "found a string");
}

TEST(Pt2Import, TranslatesEverySharedModelThatItsOpsAllow) {
  int translated = 0;
  for (const std::string& file : recorded_models(".pt2")) {
    Pt2Program program = read_pt2(file);
    if (!unsupported_ops(program).empty()) continue;
    ImportedModel model = import_pt2(program);
    EXPECT_EQ(problems_of(*model.graph), std::vector<std::string>()) << file;
    ++translated;
  }
  EXPECT_GT(translated, 0);
}

TEST(Tensors, GoThroughFilesAndBack) {
  auto folder = std::filesystem::temp_directory_path() / "tenon_tensors_test";
  std::filesystem::create_directories(folder);
  Tensor t = tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  NamedTensors content;
  content.tensors["columns"] = t.transpose(0, 1);
  content.metadata["model"] = "m";
  std::string file = (folder / "t.safetensors").string(), npy = (folder / "t.npy").string();
  write_tensors(file, content);
  NamedTensors read = read_tensors(file);
  EXPECT_EQ(read.metadata["model"], "m");
  EXPECT_EQ(read.tensors["columns"].to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  write_tensors(npy, content);
  EXPECT_EQ(to_text(read_tensors(npy).tensors[""]), "f32[3, 2]");
  content.tensors["second"] = t;
  EXPECT_THAT(refusal_of([&] { write_tensors(npy, content); }).message, HasSubstr("one tensor"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tenon::formats
