// Ops that plugins add: found by their names before anything is loaded, and from then on ops like
// any other, in eager code, in graphs, and for backends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "backend/backend.h"
#include "backend/catalog.h"
#include "backend/life/load.h"
#include "compile/compile_graph.h"
#include "core/tensor/tensor_impl.h"
#include "graph/artifact.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "ops/custom_op.h"
#include "ops/decompose.h"
#include "plugins/own_process.h"
#include "unit/message_of.h"

#include <tenon/custom_ops.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Op<Tensor(const Tensor&, const Tensor&)> swiglu{"test_ops::swiglu"};
const Op<Tensor(const Tensor&, int64_t)> pad_columns{"test_ops::pad_columns"};

class CustomOps : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {TENON_TEST_PLUGIN_DIR, TENON_PLUGIN_DIR}); }
};

bool is_mapped(const std::string& file) {
  std::stringstream text;
  text << std::ifstream("/proc/self/maps").rdbuf();
  return text.str().find(file) != std::string::npos;
}

std::vector<float> swiglu_of(const std::vector<float>& x, const std::vector<float>& gate,
                             float beta) {
  std::vector<float> out;
  for (size_t i = 0; i < x.size(); ++i)
    out.push_back(x[i] * gate[i] / (1 + std::exp(-beta * gate[i])));
  return out;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
}

TEST_F(CustomOps, AGraphThatNamesOneLoadsItsPlugin) {
  in_own_process([] {
    all_backends();
    EXPECT_FALSE(is_mapped("tenon_test_custom_ops.so"));
    auto graph = parse_graph(R"(tng 1
graph {
  input %x: f32[3]
  %y: f32[3] = test_ops.twice.default(%x)
  output %y
}
)");
    EXPECT_TRUE(is_mapped("tenon_test_custom_ops.so"));
    EXPECT_FALSE(is_mapped("tenon_eager.so"));
    Tensor x = tensor({1.0f, 2.0f, 3.0f});
    detail::TensorHead* inputs[] = {x.head()};
    Tensor out;
    interpreter_artifact(graph)->call(inputs, {}, std::span(&out, 1));
    EXPECT_THAT(out.to_vector<float>(), ElementsAre(2, 4, 6));
  });
}

// The plugin gives nothing but a schema and a formula.
TEST_F(CustomOps, AFormulaIsDifferentiatedRunOnFakesTakenApartAndCompiled) {
  auto f = [](const std::vector<Tensor>& in) { return std::vector{swiglu(in[0], in[1])}; };
  std::vector<Tensor> inputs;
  for (double shift : {0.3, -0.8})
    inputs.push_back(
        arange(6, Dtype::f64).mul(0.37).add(shift).sin().reshape({2, 3}).requires_grad_());
  EXPECT_EQ(autograd::grad_check(f, inputs), "");
  EXPECT_EQ(autograd::grad_check(f, inputs, {.second_order = true}), "");

  Tensor fake = make_fake(meta_of(inputs[0].detach()));
  EXPECT_EQ(to_text(swiglu(fake, fake)), to_text(fake));

  const OpEntry& op = *find_op("test_ops.swiglu.default");
  ASSERT_TRUE(can_decompose(op));
  Tensor x = inputs[0].detach(), gate = inputs[1].detach();
  Value args[] = {Value::of(x), Value::of(gate), Value::of(1.0)}, result;
  decompose({&op, args, &result, 3, 1});
  expect_near(take<Tensor>(result).to(Dtype::f32).to_vector<float>(),
              swiglu(x, gate).to(Dtype::f32).to_vector<float>());

  auto loss = [](const Tensor& a, const Tensor& b) { return swiglu(a, b).sum(); };
  for (const char* backend : {"eager", "aot_eager", "aot_eager_decomp_partition"}) {
    std::vector<Tensor> leaves;
    for (const Tensor& t : inputs) leaves.push_back(t.detach().clone().requires_grad_());
    compile(loss, {.backend = backend})(leaves[0], leaves[1]).backward();
    std::vector<Tensor> expected = autograd::grad({loss(inputs[0], inputs[1])}, inputs);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(leaves[i].grad().equal(expected[i])) << backend;
  }
}

TEST_F(CustomOps, AFormulaBroadcastsAndPromotes) {
  Tensor x = randn({2, 3}), gate = randn({2, 3});
  expect_near(swiglu(x, gate).to_vector<float>(),
              swiglu_of(x.to_vector<float>(), gate.to_vector<float>(), 1));
  const Op<Tensor(const Tensor&, const Tensor&, double)> with_beta{"test_ops::swiglu"};
  expect_near(with_beta(x, gate, 2.5).to_vector<float>(),
              swiglu_of(x.to_vector<float>(), gate.to_vector<float>(), 2.5f));
  EXPECT_EQ(swiglu(x, randn({3})).size(0).guard_int(), 2);
  EXPECT_EQ(swiglu(x.to(Dtype::bf16), x).dtype(), Dtype::f32);
  EXPECT_EQ(swiglu(ones({2}).to(Dtype::i64), ones({2}).to(Dtype::i64)).dtype(), Dtype::f32);
}

TEST_F(CustomOps, KernelAndMetaFunctionAgree) {
  Tensor x = ones({2, 2});
  EXPECT_THAT(pad_columns(x, 1).to_vector<float>(), ElementsAre(1, 1, 0, 1, 1, 0));
  auto f = compile([](const Tensor& t) { return pad_columns(t, 2) * 2; },
                   {.backend = "debug_nop", .dynamic = true});
  for (int64_t rows : {2, 5}) EXPECT_EQ(f(ones({rows, 3})).size(1).guard_int(), 5);
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_THAT(f.explain(), HasSubstr("test_ops.pad_columns.default"));
}

TEST_F(CustomOps, BackendsGetThemAsNodes) {
  auto body = [](const Tensor& x, const Tensor& g) { return swiglu(x * 2, g) + 1; };
  Tensor x = randn({4}), g = randn({4});
  for (const char* backend : {"eager", "aot_eager", "aot_eager_decomp_partition"}) {
    auto f = compile(body, {.backend = backend});
    EXPECT_EQ(f(x, g).to_vector<float>(), body(x, g).to_vector<float>()) << backend;
    EXPECT_THAT(f.explain(), HasSubstr("test_ops.swiglu.default")) << backend;
  }
}

TEST_F(CustomOps, WritesAreSeen) {
  const Op<Tensor(const Tensor&, double)> scale_{"test_ops::scale_"};
  auto body = [&](const Tensor& x) {
    Tensor y = x + 1;
    scale_(y, 3.0);
    return y;
  };
  Tensor x = tensor({1.0f, 2.0f});
  uint64_t version = x.version();
  EXPECT_TRUE(scale_(x, 2.0).is_same(x));
  EXPECT_GT(x.version(), version);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(2, 4));
  EXPECT_THAT(compile(body, {.backend = "eager"})(x).to_vector<float>(), ElementsAre(9, 15));
}

TEST_F(CustomOps, ADecompositionIsMetaKernelAndDecomposition) {
  const Op<std::tuple<Tensor, Tensor>(const Tensor&)> both{"test_ops::relu_and_neg"};
  auto [r, n] = both(tensor({1.0f, -2.0f}));
  EXPECT_THAT(r.to_vector<float>(), ElementsAre(1, 0));
  EXPECT_THAT(n.to_vector<float>(), ElementsAre(-1, 2));
  auto f = compile([&](const Tensor& x) { return std::get<0>(both(x)); },
                   {.backend = "aot_eager_decomp_partition"});
  EXPECT_THAT(f(tensor({-3.0f, 4.0f})).to_vector<float>(), ElementsAre(0, 4));
}

TEST_F(CustomOps, ErrorsOfKernelsNameTheOp) {
  const Op<Tensor(const Tensor&)> fails{"test_ops::fails"};
  std::string expected = "told to fail (the kernel of op test_ops.fails.default)";
  EXPECT_EQ(message_of<UserError>([&] { fails(ones({2})); }), expected);
  auto f = compile([&](const Tensor& x) { return fails(x); }, {.backend = "eager"});
  EXPECT_THAT(message_of<UserError>([&] { f(ones({2})); }), HasSubstr(expected));
  EXPECT_THAT(message_of<Error>([&] {
                pad_columns(ones({2, 2}).to(Dtype::f64), 1);
              }),
              HasSubstr("pad_columns takes f32"));
}

TEST_F(CustomOps, ResultsOfAnotherDtypeAreNamedInEagerAndCompiledCode) {
  const Op<Tensor(const Tensor&)> lies{"test_ops::lies"};
  auto expected = HasSubstr(
      "test_ops.lies.default: result 0 is i64[2] with strides [1], expected "
      "f32[2] with strides [1]; its kernel and its shape function disagree, "
      "both added by plugin test_custom_ops");
  EXPECT_THAT(message_of<Error>([&] { lies(ones({2})); }), expected);
  std::vector<std::string> built = list_backends({});
  for (std::string backend : {"eager", "aot_eager", "inductor"}) {
    if (std::ranges::count(built, backend) == 0) continue;  // inductor needs LLVM
    auto f = compile([&](const Tensor& x) { return lies(x) + 1; }, {.backend = backend});
    EXPECT_THAT(message_of<Error>([&] { f(ones({2})); }), expected) << backend;
  }
}

TEST_F(CustomOps, TheDerivativeIsKept) {
  const OpEntry* op = find_op("test_ops.twice.default");
  ASSERT_NE(op, nullptr);
  const CustomOp* custom = custom_op_of(*op);
  ASSERT_TRUE(custom && custom->vjp);
  Tensor x = ones({2}), grad = tensor({3.0f, 4.0f});
  Value args[] = {Value::of(x)};
  CallArgs call{op, args, nullptr, 1, 1};
  std::vector<Tensor> grads = custom->vjp(call, std::span(&x, 1), std::span(&grad, 1));
  ASSERT_EQ(grads.size(), 1u);
  EXPECT_THAT(grads[0].to_vector<float>(), ElementsAre(6, 8));
  EXPECT_TRUE(custom_op_of(*find_op("test_ops.swiglu.default"))->pt2_compliant);
  EXPECT_EQ(custom_op_of(*find_op("aten.relu.default")), nullptr);
}

// The last of those that its derivative gives is that of `by`, after the elements of the list.
TEST_F(CustomOps, ElementsOfListsHaveGradients) {
  const Op<Tensor(const std::vector<Tensor>&, const Tensor&)> first_of{"test_ops::first_of"};
  Tensor x = tensor({1.0f, 2.0f}).requires_grad_(), by = tensor({3.0f, 4.0f}).requires_grad_();
  auto body = [&](const Tensor& more) { return first_of({x, more, more}, by).sum(); };
  for (const char* backend : {"", "eager", "aot_eager"}) {
    for (Tensor* t : {&x, &by}) t->set_grad({});
    (*backend ? compile(body, {.backend = backend})(ones({2})) : body(ones({2}))).backward();
    EXPECT_THAT(x.grad().to_vector<float>(), ElementsAre(3, 4)) << backend;
    EXPECT_THAT(by.grad().to_vector<float>(), ElementsAre(1, 2)) << backend;
  }
}

TEST_F(CustomOps, PluginsSeeEachOthersOps) {
  const tn_host& host = *host_table();
  uint32_t id = host.ops->find(TN_STR("test_ops.swiglu.default"));
  ASSERT_NE(id, TN_NO_VALUE);
  tn_op_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(host.ops->info(id, &info), nullptr);
  EXPECT_EQ(view_of(info.schema),
            "test_ops::swiglu(Tensor x, Tensor gate, *, float beta=1.0) -> Tensor");
  EXPECT_TRUE(info.tags & TN_TAG_POINTWISE);
  tn_formula formula{};
  formula.struct_size = sizeof formula;
  ASSERT_EQ(host.ops->formula(id, nullptr, 0, TN_FP_POINTWISE, &formula), nullptr);
  EXPECT_EQ(formula.n_inputs, 3u);
  EXPECT_EQ(formula.n_instr, 4u);
  EXPECT_EQ(formula.promote, uint32_t{TN_PROMOTE_TO_FLOAT});
}

TEST_F(CustomOps, APromisedOpThatIsMissingBreaksThePlugin) {
  EXPECT_EQ(find_op("missing.never_added.default"), nullptr);
  for (const RefusedPlugin& refused : refused_plugins())
    if (refused.file.ends_with("tenon_test_missing_op.so")) {
      EXPECT_EQ(refused.code, "P12");
      EXPECT_THAT(refused.reason, HasSubstr("names op missing.never_added.default, which its entry "
                                            "did not add"));
      return;
    }
  ADD_FAILURE() << "the plugin is not among the refused ones";
}

TEST_F(CustomOps, UnknownNamesSaySo) {
  const Op<Tensor(const Tensor&)> none{"test_ops::none"};
  EXPECT_THAT(message_of<Error>([&] { none(ones({2})); }),
              HasSubstr("there is no op test_ops::none"));
}

// ---- what the host refuses

std::string refusal(tn_op_def def) {
  def.struct_size = sizeof def;
  const auto* api =
      static_cast<const tn_custom_ops_api*>(host_table()->extension(TN_CUSTOM_OPS_ID, 1));
  uint32_t id = 0;
  tn_status* status = api->add(&def, &id);
  if (!status) return "added";
  std::string text = message("{}: {}", status->code, status->text);
  free_status(status);
  return text;
}

tn_status* no_kernel(void*, tn_op_call*) { return nullptr; }

tn_op_def def_of(std::string_view schema) {
  tn_op_def def{};
  def.schema = str_of(schema);
  def.kernel = &no_kernel;
  def.flags = TN_OP_LIKE;
  return def;
}

TEST_F(CustomOps, BadDefinitionsAreRefused) {
  EXPECT_THAT(refusal(def_of("refused::a(Tensor x -> Tensor")), HasSubstr("expected"));
  EXPECT_THAT(refusal(def_of("aten::mine(Tensor x) -> Tensor")),
              HasSubstr("the namespace aten is Tenon's"));
  EXPECT_THAT(refusal(def_of("test_ops::twice(Tensor x) -> Tensor")),
              AllOf(HasSubstr("6: "), HasSubstr("the name is taken, by plugin test_custom_ops")));
  EXPECT_THAT(refusal(def_of("refused::b(Tensor x) -> Tensor(a)")), HasSubstr("sharing memory"));
  EXPECT_THAT(refusal(def_of("refused::b(Tensor x) -> Tensor[]")), HasSubstr("gives tensors"));
  EXPECT_THAT(refusal(def_of("refused::b(int k) -> Tensor")),
              HasSubstr("not a tensor of the schema"));
  tn_op_def idle = def_of("refused::b(Tensor x) -> Tensor");
  idle.kernel = nullptr;
  EXPECT_THAT(refusal(idle), HasSubstr("nothing runs it"));
  tn_op_def shapeless = def_of("refused::b(Tensor x) -> Tensor");
  shapeless.flags = 0;
  EXPECT_THAT(refusal(shapeless), HasSubstr("nothing says what its results look like"));
  tn_op_def newer = def_of("refused::b(Tensor x) -> Tensor");
  newer.flags = 1 << 20;
  EXPECT_THAT(refusal(newer), HasSubstr("unknown to this host"));
}

TEST_F(CustomOps, FormulasThatDoNotFitAreRefused) {
  tn_instr sum = {TN_F_ADD, TN_F_COMPUTE_TYPE, 0, 1, 0},
           wild = {TN_F_ADD, TN_F_COMPUTE_TYPE, 0, 9, 0},
           unknown = {9999, TN_F_COMPUTE_TYPE, 0, 1, 0};
  uint32_t output = 2;
  auto told = [&](const tn_instr& instr, std::string_view schema) {
    tn_formula f{};
    f.struct_size = sizeof f;
    f.n_inputs = 2;
    f.n_outputs = f.n_instr = 1;
    f.instr = &instr;
    f.outputs = &output;
    tn_op_def def{};
    def.schema = str_of(schema);
    def.formula = &f;
    return refusal(def);
  };
  EXPECT_THAT(told(wild, "refused::f(Tensor x, Tensor y) -> Tensor"), HasSubstr("is value 9"));
  EXPECT_THAT(told(unknown, "refused::f(Tensor x, Tensor y) -> Tensor"), HasSubstr("code 9999"));
  EXPECT_THAT(told(sum, "refused::f(Tensor x) -> Tensor"),
              HasSubstr("its schema has 1 arguments, its formula 2 inputs"));
  EXPECT_THAT(told(sum, "refused::f(Tensor x, Tensor? y) -> Tensor"),
              HasSubstr("tensors and numbers that are always given"));
  EXPECT_THAT(told(sum, "refused::f(Tensor x, Tensor y) -> (Tensor, Tensor)"),
              HasSubstr("has 2 results, its formula 1"));
  EXPECT_EQ(told(sum, "refused::added(Tensor x, Tensor y) -> Tensor"), "added");
}

}  // namespace
}  // namespace tenon
