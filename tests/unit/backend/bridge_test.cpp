// The host's side of the ABI as a plugin sees it: arguments of nodes, single ops, decompositions,
// and what is said to a plugin that asks for nonsense.
#include "backend/abi/bridge.h"
#include "backend/abi/extensions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/abi/abi_args.h"
#include "backend/abi/compile_context.h"
#include "backend/abi/graph_view.h"
#include "backend/abi/status.h"
#include "graph/text/print.h"
#include "ops/op_table.h"
#include "unit/graph/graph_of.h"

#include <tenon/autograd.h>
#include <tenon/grad_mode.h>
#include <tenon/memory.h>
#include <tenon/ops.h>
#include <tenon/primitives.h>
#include <tenon/tree.h>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const tn_host& host() { return *host_table(); }

std::string told(tn_status* status) {
  if (!status) return "ok";
  tn_str text = host().status_message(status);
  std::string out(text.data, text.size);
  host().status_free(status);
  return out;
}

uint32_t op(const char* name) { return host().ops->find({name, std::strlen(name)}); }

// ---- arguments of nodes

TEST(GraphView, ArgumentsKeepKindAndValue) {
  tn_graph g(graph_of(R"(
  input %x: f32[2, 3]
  %a: f32[2, 3] = aten.add.Tensor(%x, %x, alpha=0.5)
  %b: f64[2, 3] = aten.to.dtype(%a, f64)
  %c: f32[6] = aten.view.default(%x, [6])
  %d: f32[3] = aten.sum.dim_IntList(%x, [0])
  %e: f32[2, 3] = aten.gelu.default(%x, approximate="tanh")
  %f: f32[4, 3] = aten.cat.default([%x, %a])
  output %f
)"));
  EXPECT_EQ(g.args[0][0].kind, uint32_t{TN_ARG_VALUE});
  EXPECT_EQ(g.args[0][0].u.value, 0u);
  EXPECT_EQ(g.args[0][2].kind, uint32_t{TN_ARG_FLOAT});
  EXPECT_EQ(g.args[0][2].u.f, 0.5);
  EXPECT_EQ(g.args[1][1].kind, uint32_t{TN_ARG_DTYPE});
  EXPECT_EQ(g.args[1][1].u.i, static_cast<int64_t>(Dtype::f64));
  EXPECT_EQ(g.args[1][2].kind, uint32_t{TN_ARG_BOOL});
  ASSERT_EQ(g.args[2][1].kind, uint32_t{TN_ARG_INTS});
  EXPECT_EQ(g.args[2][1].u.ints[0], 6);
  EXPECT_EQ(g.args[3].back().kind, uint32_t{TN_ARG_NONE});
  ASSERT_EQ(g.args[4][1].kind, uint32_t{TN_ARG_STRING});
  EXPECT_EQ(std::string_view(g.args[4][1].u.str.data, g.args[4][1].u.str.size), "tanh");
  ASSERT_EQ(g.args[5][0].kind, uint32_t{TN_ARG_VALUES});
  EXPECT_EQ(g.args[5][0].count, 2u);
  EXPECT_EQ(g.args[5][0].u.values[1], g.graph->node(0).first_result);
}

TEST(GraphView, SymbolicSizesAreExpressionsWithHints) {
  tn_graph g(graph_of(R"(
  symbol s0 in [2, inf] hint 4 from size(%x, 0)
  input %x: f32[s0, 3]
  %v: f32[3*s0] = aten.view.default(%x, [3*s0])
  output %v
)"));
  const tn_arg& sizes = g.args[0][1];
  ASSERT_EQ(sizes.kind, uint32_t{TN_ARG_SYMINTS});
  EXPECT_EQ(sizes.u.syms[0].value, 12);
  EXPECT_NE(sizes.u.syms[0].expr, uint32_t{TN_EXPR_STATIC});
  EXPECT_EQ(g.sizes[0][1].expr, uint32_t{TN_EXPR_STATIC});
  int64_t symbols[] = {7}, value = 0;
  EXPECT_EQ(told(host().sym->eval(&g, sizes.u.syms[0].expr, symbols, &value)), "ok");
  EXPECT_EQ(value, 21);
  EXPECT_THAT(told(host().sym->eval(&g, 99, symbols, &value)), HasSubstr("out of range"));
}

TEST(GraphView, MemoryFormatsHaveTheNumbersOfAten) {
  tn_graph g(graph_of(R"(
  symbol s0 in [2, inf] hint 4 from size(%rows, 0)
  input %rows: f32[s0, 3]
  input %columns: f32[2, 3] strides [1, 2]
  input %image: f32[2, 3, 4, 5] strides [60, 1, 15, 3]
  output %rows, %columns, %image
)"));
  std::vector<MemoryFormat> formats;
  for (uint32_t id = 0; id < 3; ++id) {
    tn_value_info value{};
    value.struct_size = sizeof value;
    ASSERT_EQ(told(host().graph->value(&g, id, &value)), "ok");
    formats.push_back(static_cast<MemoryFormat>(value.memory_format));
  }
  EXPECT_THAT(formats, ElementsAre(MemoryFormat::contiguous, MemoryFormat::preserve,
                                   MemoryFormat::channels_last));
}

TEST(GraphView, WrongIdsAreErrors) {
  tn_graph g(graph_of("input %x: f32[2]\noutput %x\n"));
  tn_node_info node{};
  node.struct_size = sizeof node;
  EXPECT_THAT(told(host().graph->node(&g, 0, &node)), HasSubstr("node id 0 is out of range"));
  tn_value_info value{};
  value.struct_size = sizeof value;
  EXPECT_THAT(told(host().graph->value(&g, 9, &value)), HasSubstr("value id 9 is out of range"));
  tn_tensor* borrowed = nullptr;
  EXPECT_THAT(told(host().graph->constant(&g, 0, &borrowed)), HasSubstr("is not a constant"));
}

TEST(GraphView, AShorterStructOfAnOlderPluginIsNotOverrun) {
  tn_graph g(graph_of("input %x: f32[2]\noutput %x\n"));
  tn_value_info value;
  std::memset(&value, 0x5a, sizeof value);
  value.struct_size = offsetof(tn_value_info, dtype) + sizeof value.dtype;
  uint32_t before = value.struct_size;
  EXPECT_EQ(told(host().graph->value(&g, 0, &value)), "ok");
  EXPECT_EQ(value.struct_size, before);
  EXPECT_EQ(value.dtype, static_cast<int32_t>(Dtype::f32));
  auto* bytes = reinterpret_cast<const unsigned char*>(&value);
  for (size_t i = before; i < sizeof value; ++i) EXPECT_EQ(bytes[i], 0x5a) << i;
}

// ---- arguments both ways

TEST(AbiArguments, GoThereAndBack) {
  Tensor x = ones({2}), y = zeros({3});
  Tensor list[] = {x, Tensor(), y};
  int64_t ints[] = {4, -5};
  double floats[] = {0.25};
  std::string_view strings[] = {"sum", ""};
  Value values[] = {Value::of(x),
                    Value::of(TensorList(list, 3)),
                    Value::of(int64_t{-3}),
                    Value::of(2.5),
                    Value::of(true),
                    Value::of(IntList(ints, 2)),
                    Value::of(DoubleList(floats, 1)),
                    Value::of(std::string_view("mean")),
                    Value::of(StringList(strings, 2)),
                    Value::of(Dtype::bf16),
                    Value::of(Device(DeviceType::cuda, 1)),
                    Value{}};
  AbiArguments there(values, std::size(values));
  HostArguments back(there.args(), there.size(), there.values());
  std::span<Value> got = back.values();
  EXPECT_TRUE(got[0].as<Tensor>()->is_same(x));
  ASSERT_EQ(got[1].count, 3u);
  EXPECT_FALSE(got[1].as<Tensor>()[1].defined());
  EXPECT_TRUE(got[1].as<Tensor>()[2].is_same(y));
  EXPECT_EQ(got[2].number().to_int(), -3);
  EXPECT_EQ(got[3].number().to_double(), 2.5);
  EXPECT_TRUE(got[4].tag == Tag::boolean && got[4].number().to_bool());
  EXPECT_EQ(got[5].as<int64_t>()[1], -5);
  EXPECT_EQ(got[6].as<double>()[0], 0.25);
  EXPECT_EQ(std::string_view(got[7].as<char>(), got[7].count), "mean");
  EXPECT_EQ(got[8].as<std::string_view>()[0], "sum");
  EXPECT_EQ(static_cast<Dtype>(got[9].payload), Dtype::bf16);
  EXPECT_EQ(got[10].device(), Device(DeviceType::cuda, 1));
  EXPECT_TRUE(got[11].is_none());
}

TEST(AbiArguments, AnAbsentTensorIsNone) {
  Value value = Value::of(Tensor());
  AbiArguments there(&value, 1);
  EXPECT_EQ(there.args()[0].kind, uint32_t{TN_ARG_NONE});
  tn_arg absent = empty_arg();
  absent.kind = TN_ARG_VALUE;
  absent.u.value = TN_NO_VALUE;
  HostArguments back(&absent, 1, nullptr);
  EXPECT_TRUE(back.values()[0].is_none());
}

// ---- single ops

std::string run_told(const char* name, std::vector<tn_arg> args, std::vector<tn_tensor*> values,
                     uint32_t n_out) {
  std::vector<tn_tensor*> out(n_out);
  std::string text = told(host().run->run_op(op(name), args.data(), uint32_t(args.size()),
                                             values.data(), nullptr, out.data(), n_out));
  for (tn_tensor* t : out) host().tensor->release(t);
  return text;
}

tn_arg value_arg(uint32_t index) {
  tn_arg a = empty_arg();
  a.kind = TN_ARG_VALUE;
  a.u.value = index;
  return a;
}

TEST(Primitives, AreTheLoopsOfTheHost) {
  const auto* primitives = static_cast<const tn_primitives_api*>(
      host().extension(TN_PRIMITIVES_ID, TN_PRIMITIVES_VERSION));
  ASSERT_NE(primitives, nullptr);
  Tensor x = randn({1000}), found = empty({1000}), two = full({1}, 2.0);
  const void* in[] = {x.data_ptr<float>(), two.data_ptr<float>()};
  primitives->find(TN_F_SIN, TN_F32)(found.data_ptr<float>(), in, 1000, 0);
  EXPECT_TRUE(found.equal(x.sin()));
  primitives->find(TN_F_ATAN2, TN_F32)(found.data_ptr<float>(), in, 1000, 2);
  EXPECT_TRUE(found.equal(atan2(x, two)));
  EXPECT_EQ(primitives->find(TN_F_SIN, TN_I64), nullptr);
  EXPECT_EQ(primitives->find(TN_F_CAST, TN_F32), nullptr);
  EXPECT_EQ(primitives->find(TN_F_COUNT, TN_F32), nullptr);
}

TEST(RunOp, HasTheGradientModeThatItIsTold) {
  const auto* modes =
      static_cast<const tn_grad_mode_api*>(host().extension(TN_GRAD_MODE_ID, TN_GRAD_MODE_VERSION));
  ASSERT_NE(modes, nullptr);
  Tensor x = ones({2}).requires_grad_();
  std::vector<tn_arg> args{value_arg(0)};
  std::vector<tn_tensor*> values{x.head()};
  auto needs_gradient = [&](int32_t mode) {
    tn_tensor* out = nullptr;
    EXPECT_EQ(told(modes->run_op(op("aten.relu.default"), mode, args.data(), 1, values.data(),
                                 nullptr, &out, 1)),
              "ok");
    bool needs = out->flags & TN_T_REQUIRES_GRAD;
    host().tensor->release(out);
    return needs;
  };
  for (bool is_on : {true, false}) {
    EnableGradGuard around(is_on);
    EXPECT_EQ(needs_gradient(TN_GRAD_AS_CALLED), is_on);
    EXPECT_FALSE(needs_gradient(TN_GRAD_OFF));
    EXPECT_TRUE(needs_gradient(TN_GRAD_ON));
    EXPECT_EQ(is_grad_enabled(), is_on);
  }
  tn_tensor* out = nullptr;
  EXPECT_THAT(told(modes->run_op(op("aten.relu.default"), 3, args.data(), 1, values.data(), nullptr,
                                 &out, 1)),
              HasSubstr("the grad mode is unknown"));
}

TEST(RunOp, WrongCountsAndKindsAreErrors) {
  Tensor x = ones({2});
  std::vector<tn_tensor*> values{x.head()};
  EXPECT_THAT(run_told("aten.relu.default", {}, values, 1), HasSubstr("needs the argument self"));
  EXPECT_THAT(run_told("aten.relu.default", {value_arg(0), value_arg(0)}, values, 1),
              HasSubstr("takes 1 arguments, found 2"));
  EXPECT_EQ(run_told("aten.relu.default", {value_arg(0)}, values, 1), "ok");
  EXPECT_THAT(run_told("aten.relu.default", {value_arg(0)}, values, 2),
              HasSubstr("gives 1 results, room for 2 was passed"));
  tn_arg odd = empty_arg();
  odd.kind = 1000;
  EXPECT_THAT(run_told("aten.relu.default", {odd}, values, 1),
              HasSubstr("argument kind 1000 is unknown"));
  tn_arg symbolic = empty_arg();
  symbolic.kind = TN_ARG_SYMINT;
  symbolic.u.sym = {3, 0, TN_DIM_HAS_HINT};
  EXPECT_THAT(run_told("aten.select.int", {value_arg(0), empty_arg(), symbolic}, values, 1),
              HasSubstr("must be evaluated first"));
}

TEST(RunOp, ArgumentsAreHeldAgainstTheSchema) {
  Tensor x = ones({2});
  std::vector<tn_tensor*> values{x.head()};
  tn_arg number = empty_arg();
  number.kind = TN_ARG_FLOAT;
  number.u.f = 1;
  EXPECT_THAT(run_told("aten.relu.default", {number}, values, 1),
              HasSubstr("aten.relu.default: argument self must be Tensor, found float"));
  EXPECT_THAT(run_told("aten.relu.default", {empty_arg()}, values, 1),
              HasSubstr("argument self must be Tensor, found None"));
  EXPECT_THAT(run_told("aten.select.int", {value_arg(0), number, number}, values, 1),
              HasSubstr("argument dim must be int, found float"));
  EXPECT_THAT(run_told("aten.cat.default", {value_arg(0)}, values, 1),
              HasSubstr("argument tensors must be Tensor[], found Tensor"));
}

TEST(RunOp, AListOfResultsIsHandedOutOneByOne) {
  Tensor x = ones({5});
  std::vector<tn_tensor*> values{x.head()};
  tn_arg size = empty_arg(), dim = empty_arg();
  size.kind = dim.kind = TN_ARG_INT;
  size.u.i = 2;
  EXPECT_EQ(run_told("aten.split.Tensor", {value_arg(0), size, dim}, values, 3), "ok");
  EXPECT_EQ(x.head()->references.load(), 1);
}

// ---- sub-graphs

TEST(RunExtract, GivesTheBorderAndRefusesWhatIsNotConvex) {
  tn_graph g(graph_of(R"(
  input %x: f32[4]
  %a: f32[4] = aten.relu.default(%x)
  %b: f32[4] = aten.sin.default(%a)
  %c: f32[4] = aten.add.Tensor(%a, %b)
  output %c
)"));
  tn_ctx ctx;
  const tn_graph* part = nullptr;
  const uint32_t *inputs = nullptr, *outputs = nullptr;
  uint32_t last[] = {1, 2}, ends[] = {0, 2};
  EXPECT_EQ(told(host().run->extract(&ctx, &g, last, 2, &part, &inputs, &outputs)), "ok");
  EXPECT_EQ(host().graph->node_count(part), 2u);
  EXPECT_EQ(inputs[0], g.graph->node(0).first_result);
  EXPECT_EQ(outputs[0], g.graph->node(2).first_result);
  EXPECT_THAT(told(host().run->extract(&ctx, &g, ends, 2, &part, &inputs, &outputs)),
              HasSubstr("the nodes are not convex"));
}

std::string name_of_symbol(const tn_graph* g, uint32_t position) {
  const uint32_t* symbols = nullptr;
  host().graph->symbols(g, &symbols);
  tn_expr_info info{.struct_size = sizeof(tn_expr_info)};
  EXPECT_EQ(told(host().sym->info(g, symbols[position], &info)), "ok");
  return {info.name.data, info.name.size};
}

// What an author of a wrapper passes on: numbers come in `syms`, whose places names tell.
TEST(RunExtract, SymbolsThatNoInputShowsAreInputsWithoutAValue) {
  tn_graph g(graph_of(R"(
  symbol s0 in [2, inf] hint 4 from size(%x, 0)
  symbol s1 in [2, inf] hint 5 from size(%x, 1)
  input %x: f32[s0, s1]
  %a: f32[s0, s1] = aten.relu.default(%x)
  %b: i64[s1] = aten.arange.default(s1, dtype=i64)
  output %a, %b
)"));
  tn_ctx ctx;
  const tn_graph* part = nullptr;
  const uint32_t *inputs = nullptr, *outputs = nullptr, *none = nullptr;
  uint32_t nodes[] = {1};
  ASSERT_EQ(told(host().run->extract(&ctx, &g, nodes, 1, &part, &inputs, &outputs)), "ok");
  ASSERT_EQ(host().graph->inputs(part, &none), 1u);
  EXPECT_EQ(inputs[0], TN_NO_VALUE);
  ASSERT_EQ(host().graph->symbols(part, &none), 1u);
  EXPECT_EQ(name_of_symbol(part, 0), name_of_symbol(&g, 1));
}

// ---- decompositions

std::string decomposed(const std::string& body) {
  tn_graph g(graph_of(body));
  tn_ctx ctx;
  const tn_graph* out = nullptr;
  std::string text = told(host().ops->decompose(&ctx, &g, 0, {"", 0}, &out));
  return text == "ok" ? to_text(*out->graph) : text;
}

TEST(Decompose, OneNodeBecomesAGraphOverItsTensors) {
  std::string text = decomposed(R"(
  input %x: f32[4]
  %y: f32[4] = aten.silu.default(%x)
  output %y
)");
  EXPECT_THAT(text, HasSubstr("aten.sigmoid.default"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("silu")));
}

TEST(Decompose, AnOpWithoutOneSaysSo) {
  EXPECT_THAT(decomposed("input %x: f32[4]\n%y: f32[4] = aten.relu.default(%x)\noutput %y\n"),
              HasSubstr("aten.relu.default has no decomposition"));
}

TEST(Decompose, ListsOfTensorsAndSeveralResultsAreTaken) {
  EXPECT_THAT(decomposed(R"(
  input %x: f32[2]
  input %y: f32[2]
  %z: f32[2, 2] = aten.stack.default([%x, %y])
  output %z
)"),
              HasSubstr("aten.cat.default"));
  std::string parts = decomposed(R"(
  input %x: f32[4]
  %a: f32[2], %b: f32[2] = aten.chunk.default(%x, 2)
  output %a
)");
  EXPECT_THAT(parts, HasSubstr("output %"));
}

TEST(Decompose, SymbolicNumbersStayInputs) {
  std::string text = decomposed(R"(
  symbol s0 in [2, inf] hint 4 from size(%x, 0)
  input %x: f32[s0, 3]
  %v: f32[3, s0] strides [1, 3] = aten.movedim.int(%x, 0, 1)
  output %v
)");
  EXPECT_THAT(text, HasSubstr("f32[s0, 3]"));
}

// ---- tensors

TEST(TensorTable, NonsenseIsRefused) {
  tn_tensor* out = nullptr;
  int64_t sizes[] = {2, 3};
  EXPECT_THAT(told(host().tensor->empty(sizes, nullptr, -1, 0, TN_DEV_CPU, 0, &out)),
              HasSubstr("0 to 64 dimensions, found -1"));
  EXPECT_THAT(told(host().tensor->empty(sizes, nullptr, 2, 12345, TN_DEV_CPU, 0, &out)),
              HasSubstr("dtype number 12345 is unknown"));
  EXPECT_THAT(told(host().tensor->empty(nullptr, nullptr, 2, static_cast<int32_t>(Dtype::f32),
                                        TN_DEV_CPU, 0, &out)),
              HasSubstr("sizes must not be null"));
}

TEST(TensorTable, CopyBroadcastsAndConverts) {
  Tensor to = zeros({2, 3}), from = tensor({1.0, 2.0, 3.0});
  EXPECT_EQ(told(host().tensor->copy(to.head(), from.head(), nullptr)), "ok");
  EXPECT_THAT(to.to_vector<float>(), ElementsAre(1, 2, 3, 1, 2, 3));
  Tensor narrow = zeros({2});
  EXPECT_THAT(told(host().tensor->copy(narrow.head(), from.head(), nullptr)),
              HasSubstr("a tensor of shape [3] does not fit into one of shape [2]"));
}

// Views keep the memory; whoever asks twice is told once.
TEST(MemoryTable, TellsThatMemoryIsGone) {
  static std::vector<uint64_t> gone;
  auto note = [](uint64_t storage_id) { gone.push_back(storage_id); };
  const auto* memory =
      static_cast<const tn_memory_api*>(host().extension(TN_MEMORY_ID, TN_MEMORY_VERSION));
  Tensor watched = ones({4}), view = watched.view({2, 2}), other = ones({4});
  uint64_t id = watched.head()->storage_id;
  EXPECT_EQ(memory->tell_end(watched.head(), note), 1);
  EXPECT_EQ(memory->tell_end(view.head(), note), 1);
  other = watched = Tensor();
  EXPECT_THAT(gone, ElementsAre());
  view = Tensor();
  EXPECT_THAT(gone, ElementsAre(id));
}

// Two engines may offer the same kind of table.
TEST(Extensions, SeveralTablesOfOneNameAreNumbered) {
  static const int first = 1, second = 2, third = 3;
  const char* id = "bridge_test.collectives";
  add_extension(id, 1, &first);
  add_extension(id, 2, &second);
  add_extension(id, 1, &third);
  EXPECT_EQ(host().extension(id, 1), &first);
  EXPECT_EQ(host().extension_at(id, 1, 0), &first);
  EXPECT_EQ(host().extension_at(id, 1, 1), &second);
  EXPECT_EQ(host().extension_at(id, 1, 2), &third);
  EXPECT_EQ(host().extension_at(id, 1, 3), nullptr);
  EXPECT_EQ(host().extension_at(id, 2, 0), &second);
  EXPECT_EQ(host().extension_at(id, 2, 1), nullptr);
  EXPECT_EQ(host().extension(id, 3), nullptr);
}

}  // namespace
}  // namespace tenon
