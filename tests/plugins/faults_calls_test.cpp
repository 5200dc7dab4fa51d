// Plugins that throw out of their functions or break the contract of a call, and plugins that must
// not disturb each other. One process a test.
#include "faults.h"

#include "backend/abi/graph_view.h"
#include "backend/abi/status.h"
#include "backend/catalog.h"
#include "backend/life/load.h"
#include "backend/life/plugin_call.h"
#include "config/config.h"
#include "report/log.h"

#include <tenon/ops.h>

namespace tenon {
namespace {

using namespace test;

std::string call_error(const std::string& backend, std::string_view graph = doubled,
                       const Tensor& input = ones_4_3()) {
  auto artifact = compiled(backend, graph);
  return told_by([&] { called(*artifact, input); });
}

const LoadedPlugin& loaded(const std::string& plugin) {
  plugin_catalog().list();
  return load_plugin(plugin_catalog(), plugin_catalog().find_plugin(plugin));
}

std::string text_and_free(tn_status* status) {
  if (!status) return "no status";
  std::string text = replaced(status->text, TENON_FAULT_DIR, "{dir}");
  free_status(status);
  return text;
}

// ---- the second net

TEST(Net, CatchesWhatCompileThrows) {
  know({"throws"});
  EXPECT_EQ(compile_error("fault_throws_in_compile"),
            "BackendCompilerFailed: backend fault_throws_in_compile: P10 "
            "{dir}/tenon_fault_throws.so: its compile of backend fault_throws_in_compile threw "
            "std::runtime_error: compile failed; catch exceptions inside the plugin, as "
            "tenon/plugin.hpp does; until the process ends nothing more is compiled with it");
  // Nothing more is compiled with the plugin, whichever of its backends is named.
  EXPECT_EQ(compile_error("fault_throws_elsewhere"),
            "PluginError: P10 {dir}/tenon_fault_throws.so: its compile of backend "
            "fault_throws_in_compile threw std::runtime_error: compile failed; catch exceptions "
            "inside the plugin, as tenon/plugin.hpp does; until the process ends nothing more is "
            "compiled with it");
  EXPECT_EQ(listed_as("throws"), "faulty P10");
  expect_the_rest_works();
}

TEST(Net, CatchesWhatACallThrows) {
  know({"throws"});
  report::LogCapture log;
  EXPECT_EQ(
      call_error("fault_throws_in_call"),
      "BackendCallFailed: backend fault_throws_in_call: P10 {dir}/tenon_fault_throws.so: its call "
      "of backend fault_throws_in_call threw int: 42; catch exceptions inside the plugin, as "
      "tenon/plugin.hpp does; until the process ends nothing more is compiled with it");
  EXPECT_EQ(listed_as("throws"), "faulty P10");
  // Its destroy function threw as well: told, and no more.
  EXPECT_EQ(log.count("its destroy of backend fault_throws_in_call threw std::runtime_error: "
                      "destroy failed"),
            1u);
  expect_the_rest_works();
}

TEST(Net, CatchesWhatBodiesAndSinksThrow) {
  know({"throws"});
  EXPECT_EQ(compile_error("fault_throws_in_body"),
            "BackendCompilerFailed: backend fault_throws_in_body: body failed");
  EXPECT_EQ(compile_error("fault_throws_in_sink"),
            "BackendCompilerFailed: backend fault_throws_in_sink: sink failed");
  expect_the_rest_works();
}

TEST(Net, CatchesWhatDeletersThrow) {
  know({"throws"});
  report::LogCapture log;
  expect_works("fault_throws_in_deleter");
  EXPECT_EQ(log.count("error: [backend] a deleter of a plugin threw: deleter failed"), 1u);
}

TEST(Net, CatchesWhatKernelsThrowAndGoesOnWithItsOwn) {
  know({"throws"});
  Tensor x = ones_4_3();
  EXPECT_EQ(told_by([&] { asinh(x); }),
            "BackendCallFailed: kernel aten.asinh.default of fault_throws: P10 "
            "{dir}/tenon_fault_throws.so: its kernel aten.asinh.default threw std::runtime_error: "
            "kernel failed; catch exceptions inside the plugin, as tenon/plugin.hpp does; until "
            "the process ends nothing more is compiled with it");
  EXPECT_FLOAT_EQ(asinh(x).to_vector<float>()[0], std::asinh(1.0f));
  expect_the_rest_works();
}

TEST(Net, CatchesWhatEveryOtherFunctionThrows) {
  know({"throws"});
  const LoadedPlugin& p = loaded("fault_throws");
  const tn_backend& b = p.backends[5];
  const tn_sink sink = {nullptr, [](void*, const char*, size_t) {}};
  // Whether the text is that of P10 for the function.
  auto is_told = [&](const std::string& name, auto call) {
    std::string text = text_and_free(call_plugin(p.net, name, call));
    EXPECT_EQ(text, "P10 {dir}/tenon_fault_throws.so: its " + name +
                        " threw std::runtime_error: " + name +
                        " failed; catch exceptions inside "
                        "the plugin, as tenon/plugin.hpp does; until the process ends nothing more "
                        "is compiled with it");
  };
  tn_artifact* artifact = nullptr;
  EXPECT_EQ(p.backends[1].compile(nullptr, nullptr, &artifact), nullptr);
  const tn_artifact_api& api = *artifact->api;
  is_told("supports", [&] { return b.supports(nullptr, nullptr, nullptr); });
  is_told("load", [&] { return b.load(nullptr, nullptr, {}, &artifact); });
  is_told("fingerprint", [&] { return b.fingerprint(nullptr, &sink); });
  is_told("reset", [&] { return b.reset(nullptr); });
  is_told("serialize", [&] { return api.serialize(artifact, &sink); });
  is_told("describe", [&] { return api.describe(artifact, 0, &sink); });
  is_told("set_constants", [&] { return api.set_constants(artifact, nullptr, nullptr, 0); });
  is_told("shutdown", [&] { return p.table.shutdown(); });
  expect_the_rest_works();
}

// ---- the barrier of plugin.hpp, also with a C++ runtime of the plugin's own

void expect_the_barrier_holds(const std::string& plugin) {
  know({plugin});
  std::string name = "fault_" + plugin;
  report::LogCapture log;
  EXPECT_EQ(compile_error(name + "_compile"),
            "BackendCompilerFailed: backend " + name + "_compile: compile failed");
  EXPECT_EQ(compile_error(name + "_supports"),
            "BackendCompilerFailed: backend " + name + "_supports: supports: supports failed");
  EXPECT_EQ(call_error(name + "_call"),
            "BackendCallFailed: backend " + name + "_call: call failed");
  EXPECT_EQ(call_error(name + "_own"),
            "BackendCallFailed: backend " + name + "_own: an exception of unknown type");
  EXPECT_EQ(call_error(name + "_body"),
            "BackendCallFailed: backend " + name + "_body: body failed");
  EXPECT_EQ(call_error(name + "_deleter"), "no error");
  EXPECT_EQ(log.count("error: [plugin.deleter] threw: deleter failed"), 1u);
  EXPECT_EQ(log.count("error: [plugin.destroy] threw: destroy failed"), 4u);
  EXPECT_EQ(told_by([] { asinh(ones_4_3()); }),
            "BackendCallFailed: kernel aten.asinh.default of " + name + ": kernel failed");

  const LoadedPlugin& p = loaded(name);
  const tn_backend& b = p.backends[1];
  auto artifact = compiled(name + "_call");
  EXPECT_EQ(artifact->describe(TN_DESC_IR), "");
  const tn_sink sink = {nullptr, [](void*, const char*, size_t) {}};
  tn_compile_request request{};
  tn_artifact* out = nullptr;
  tn_graph graph(parse_graph(doubled));
  request.graph = &graph;
  EXPECT_EQ(text_and_free(b.load(b.self, &request, {}, &out)), "load failed");
  EXPECT_EQ(text_and_free(b.fingerprint(b.self, &sink)), "fingerprint failed");
  EXPECT_EQ(text_and_free(b.reset(b.self)), "reset failed");
  ASSERT_EQ(b.compile(b.self, &request, &out), nullptr);
  EXPECT_EQ(text_and_free(out->api->serialize(out, &sink)), "serialize failed");
  EXPECT_EQ(text_and_free(out->api->describe(out, 0, &sink)), "describe failed");
  EXPECT_EQ(text_and_free(out->api->set_constants(out, nullptr, nullptr, 0)),
            "set_constants failed");
  out->api->destroy(out);
  EXPECT_EQ(listed_as(plugin), "ready");
  EXPECT_EQ(text_and_free(p.table.shutdown()), "shutdown failed");
  expect_the_rest_works();
}

TEST(Barrier, HoldsInTheRuntimeOfTheProgram) { expect_the_barrier_holds("wrapped"); }

TEST(Barrier, HoldsInARuntimeOfThePluginsOwn) { expect_the_barrier_holds("wrapped_own_runtime"); }

// ---- P23

TEST(Contract, OutputsAreThereAndOfTheGraphsDtypeAndRank) {
  know({"breaks_contract"});
  EXPECT_EQ(
      call_error("fault_breaks_null"),
      "BackendCallFailed: backend fault_breaks_null: P23 {dir}/tenon_fault_breaks_contract.so: the "
      "call succeeded and left output 0 (%y) NULL; run `tenon plugin check` on it");
  EXPECT_EQ(
      call_error("fault_breaks_dtype"),
      "BackendCallFailed: backend fault_breaks_dtype: P23 {dir}/tenon_fault_breaks_contract.so: "
      "output 0 (%y) has dtype f64, the graph says f32; run `tenon plugin check` on it");
  EXPECT_EQ(
      call_error("fault_breaks_rank"),
      "BackendCallFailed: backend fault_breaks_rank: P23 {dir}/tenon_fault_breaks_contract.so: "
      "output 0 (%y) has 3 dimensions, the graph says 2; run `tenon plugin check` on it");
  EXPECT_EQ(listed_as("breaks_contract"), "faulty P23");
  expect_the_rest_works();
}

TEST(Contract, OutputsThatNeedGradientsHaveAHistory) {
  know({"breaks_contract"});
  std::string graph =
      replaced(std::string(doubled), "%x: f32[4, 3]", "%x: f32[4, 3] requires_grad");
  graph = replaced(graph, "%y: f32[4, 3]", "%y: f32[4, 3] requires_grad");
  EXPECT_EQ(call_error("fault_breaks_grad", graph, ones_4_3().requires_grad_()),
            "BackendCallFailed: backend fault_breaks_grad: P23 "
            "{dir}/tenon_fault_breaks_contract.so: output 0 (%y) has no gradient history, although "
            "it depends on inputs that need gradients; run `tenon plugin check` on it");
  EXPECT_EQ(call_error("fault_breaks_grad", graph), "no error");  // its input needs none any more
  EXPECT_EQ(call_error("fault_breaks_grad"), "no error");
}

TEST(Declined, WithoutAFallbackTheOpsAreTold) {
  know({"declines"});
  EXPECT_EQ(compile_error("fault_declines_to_nobody"),
            "BackendCompilerFailed: backend fault_declines_to_nobody declines a graph of "
            "aten.add.Tensor, and has no fallback; use another backend");
}

TEST(Declined, AFallbackThatIsNotThereIsOneOfTheManifest) {
  know({"declines"});
  EXPECT_EQ(compile_error("fault_declines_to_a_stranger"),
            "PluginError: the manifest of backend fault_declines_to_a_stranger names the fallback "
            "\"nope\": there is no backend 'nope'");
  expect_the_rest_works();
}

TEST(Contract, EmptyPointersAreNoArtifacts) {
  know({"breaks_contract"});
  std::string expected =
      "BackendCompilerFailed: backend fault_breaks_pointer: P23 "
      "{dir}/tenon_fault_breaks_contract.so: gave no artifact and no error; run `tenon plugin "
      "check` on it";
  EXPECT_EQ(compile_error("fault_breaks_pointer"), expected);
  CompileRequest request;
  request.graph = parse_graph(doubled);
  SavedArtifact saved{.kind = SavedArtifact::Kind::plugin, .backend = "fault_breaks_pointer"};
  EXPECT_EQ(told_by([&] { load_with_backend(saved, request); }), expected);
  expect_the_rest_works();
}

TEST(Contract, ArtifactsHaveTheirFunctions) {
  know({"breaks_contract"});
  EXPECT_EQ(
      compile_error("fault_breaks_artifact"),
      "BackendCompilerFailed: backend fault_breaks_artifact: P23 "
      "{dir}/tenon_fault_breaks_contract.so: gave no artifact and no error; run `tenon plugin "
      "check` on it");
  EXPECT_EQ(compile_error("fault_breaks_function"),
            "BackendCompilerFailed: backend fault_breaks_function: P23 "
            "{dir}/tenon_fault_breaks_contract.so: its artifact has no call function; run `tenon "
            "plugin check` on it");
  EXPECT_EQ(compile_error("fault_breaks_table"),
            "BackendCompilerFailed: backend fault_breaks_table: P23 "
            "{dir}/tenon_fault_breaks_contract.so: the table of its artifact has 8 bytes, expected "
            "24 or more; run `tenon plugin check` on it");
  expect_the_rest_works();
}

TEST(Contract, ShapesAreCheckedWhereTheFlagAsksForIt) {
  know({"breaks_contract"});
  EXPECT_EQ(call_error("fault_breaks_shape"), "no error");
  auto patch = config::patch({{"plugins.check_calls", true}});
  EXPECT_EQ(
      call_error("fault_breaks_shape"),
      "BackendCallFailed: backend fault_breaks_shape: P23 {dir}/tenon_fault_breaks_contract.so: "
      "output 0 (%y) has shape [5, 3], the graph says [4, 3]; run `tenon plugin check` on it");
  expect_the_rest_works();
}

namespace {

std::string error_of_strides(const std::string& graph, Stage stage) {
  CompileRequest request;
  request.graph = parse_graph(graph);
  request.stage = stage;
  auto artifact = compile_with_backend("fault_breaks_strides", request);
  return told_by([&] { called(*artifact, ones_4_3()); });
}

}  // namespace

// What other code goes on with lies as the graph says, whoever asks.
TEST(Contract, OutputsHaveTheStridesOfTheGraph) {
  know({"breaks_contract"});
  std::string expected =
      "BackendCallFailed: backend fault_breaks_strides: P23 "
      "{dir}/tenon_fault_breaks_contract.so: output 0 (%y) has strides [1, 4], the graph says [3, "
      "1]; run `tenon plugin check` on it";
  std::string graph(doubled);
  EXPECT_EQ(error_of_strides(graph, Stage::inference), expected);
  EXPECT_EQ(error_of_strides(graph, Stage::captured), "no error");
  std::string turned = replaced(graph, "f32[4, 3]", "f32[4, 3] strides [1, 4]");
  EXPECT_EQ(error_of_strides(turned, Stage::inference), "no error");
  auto patch = config::patch({{"plugins.check_calls", true}});
  EXPECT_EQ(error_of_strides(graph, Stage::captured), expected);
  expect_the_rest_works();
}

TEST(Contract, OutputsLieApartWhereTheFlagAsksForIt) {
  know({"breaks_contract"});
  std::string graph = replaced(std::string(doubled), "  output %y\n",
                               "  %z: f32[4, 3] = aten.neg.default(%x)\n  output %y, %z\n");
  auto error_of = [&](const std::string& backend) {
    auto artifact = compiled(backend, graph);
    Tensor x = ones_4_3();
    return told_by([&] {
      detail::TensorHead* inputs[] = {x.head()};
      std::vector<Tensor> outputs(2);
      artifact->call(inputs, {}, outputs);
    });
  };
  EXPECT_EQ(error_of("fault_breaks_twice"), "no error");
  EXPECT_EQ(error_of("fault_breaks_over"), "no error");
  auto patch = config::patch({{"plugins.check_calls", true}});
  EXPECT_EQ(error_of("fault_breaks_twice"),
            "BackendCallFailed: backend fault_breaks_twice: P23 "
            "{dir}/tenon_fault_breaks_contract.so: output 0 (%y) and output 1 (%z) share memory, "
            "the graph keeps them apart; run `tenon plugin check` on it");
  EXPECT_EQ(error_of("fault_breaks_over"),
            "BackendCallFailed: backend fault_breaks_over: P23 "
            "{dir}/tenon_fault_breaks_contract.so: output 0 (%y) shares memory with input 0 (%x), "
            "the graph keeps them apart; run `tenon plugin check` on it");
  expect_the_rest_works();
}

TEST(Contract, InputsAreWatchedWhereTheFlagAsksForIt) {
  know({"breaks_contract"});
  EXPECT_EQ(call_error("fault_breaks_input"), "no error");
  auto patch = config::patch({{"plugins.check_calls", true}});
  EXPECT_EQ(
      call_error("fault_breaks_input"),
      "BackendCallFailed: backend fault_breaks_input: P23 {dir}/tenon_fault_breaks_contract.so: "
      "wrote input 0 (%x), which the graph does not change; run `tenon plugin check` on it");
  // What the graph itself writes may be written.
  std::string writes =
      replaced(std::string(doubled), "aten.add.Tensor(%x, %x)", "aten.add_.Tensor(%x, %x)");
  EXPECT_EQ(call_error("fault_breaks_input", writes), "no error");
  expect_the_rest_works();
}

TEST(Contract, HandlesEndWithTheirCallWhereTheFlagAsksForIt) {
  know({"breaks_contract"});
  auto patch = config::patch({{"plugins.check_calls", true}});
  auto artifact = compiled("fault_breaks_handle");
  Tensor x = ones_4_3();
  EXPECT_EQ(told_by([&] { called(*artifact, x); }), "no error");
  EXPECT_EQ(told_by([&] { called(*artifact, x); }),
            "BackendCallFailed: backend fault_breaks_handle: P23 "
            "{dir}/tenon_fault_breaks_contract.so: a tensor handle was used after the call that "
            "lent it, without having been retained; run `tenon plugin check` on it");
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(12, 1.0f));
  expect_the_rest_works();
}

TEST(Contract, LentInputsAreNotReleasedWhereTheFlagAsksForIt) {
  know({"breaks_contract"});
  auto patch = config::patch({{"plugins.check_calls", true}});
  auto artifact = compiled("fault_breaks_release");
  Tensor x = ones_4_3();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(told_by([&] { called(*artifact, x); }),
              "BackendCallFailed: backend fault_breaks_release: P23 "
              "{dir}/tenon_fault_breaks_contract.so: released input 0 (%x), which it was only "
              "lent; run `tenon plugin check` on it");
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(12, 1.0f));
  expect_the_rest_works();
}

TEST(Contract, PluginsThatKeepItPassTheChecks) {
  know({"good"});
  auto patch = config::patch({{"plugins.check_calls", true}});
  expect_works("fault_good");
  expect_the_rest_works();
  constexpr std::string_view identity = "tng 1\ngraph {\n  input %x: f32[4, 3]\n  output %x\n}\n";
  Tensor x = ones_4_3();
  EXPECT_TRUE(called(*compiled("fault_good", identity), x).is_same(x));
}

// ---- isolation

TEST(Isolation, EqualNamesInSeveralPluginsAreSeveralThings) {
  know({"clash_a", "clash_b", "clash_own_runtime"});
  std::vector<std::shared_ptr<Artifact>> artifacts;
  for (const char* name : {"fault_clash_a", "fault_clash_b", "fault_clash_own_runtime"})
    artifacts.push_back(compiled(name));
  for (int round = 0; round < 3; ++round)
    for (size_t i = 0; i < artifacts.size(); ++i)
      for (size_t times = 0; times <= i; ++times)
        EXPECT_EQ(called(*artifacts[i], ones_4_3()).to_vector<float>()[0], 2.0f);
  EXPECT_EQ(artifacts[0]->describe(0),
            "constructor 1, name 1, counter 1003, number 1, call 3, caught 3, start 1");
  EXPECT_EQ(artifacts[1]->describe(0),
            "constructor 20, name 20, counter 20006, number 20, call 6, caught 6, start 1");
  EXPECT_EQ(artifacts[2]->describe(0),
            "constructor 300, name 300, counter 300009, number 300, call 9, caught 9, start 1");
}

}  // namespace
}  // namespace tenon
