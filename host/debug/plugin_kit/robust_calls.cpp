// Level 3, a correct host: threads, memory between guard zones, longer structs, optional functions.
#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "core/error.h"
#include "core/utf8.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/process_state.h"
#include "debug/plugin_kit/robust_checks.h"
#include "debug/plugin_kit/watched_host.h"
#include "formats/json.h"

#include <cstring>

namespace tenon::kit {

namespace {

// Of a graph with fixed sizes.
int64_t elements_of(const GraphValue& value) {
  int64_t n = value.kind == ValueKind::tensor;
  for (SymInt size : value.meta.sizes) n *= size.is_symbolic() ? 1 : size.word();
  return n;
}

// The graph with sizes at which calls take long enough to meet each other.
GraphCase large_case(const DirectBackend& direct, const GraphCase& c, uint64_t seed) {
  constexpr int64_t sizes[] = {4099, 515, 67}, most_elements = 1 << 19;
  GoldenGraph golden = golden_graph(c.graph->name);
  for (int64_t size : sizes) {
    std::vector<int64_t> symbols = with_sizes(*golden.graph, size);
    if (symbols.empty() || !admits(*golden.graph, symbols)) continue;
    GraphCase large = make_sized_case(golden, symbols, seed);
    int64_t elements = 0;
    for (const GraphValue& v : large.graph->values()) elements += elements_of(v);
    if (elements <= most_elements) return direct.prepared(large);
  }
  return c;
}

// Each thread has numbers of its own, so that it notices those of others.
void call_from_threads(Artifact& artifact, const GraphCase& c, int calls, uint64_t seed) {
  std::vector<GraphCase> cases;
  std::vector<std::vector<Tensor>> expected;
  for (int t = 0; t < n_threads; ++t) {
    cases.push_back(with_other_numbers(c, seed + static_cast<uint64_t>(t) * 77));
    expected.push_back(run_reference(cases.back()));
  }
  on_threads(calls, [&](int thread, int) {
    auto t = static_cast<size_t>(thread);
    std::vector<Tensor> found = call(artifact, cases[t], cases[t].inputs);
    std::string wrong = difference(cases[t], found, expected[t]);
    expect(wrong.empty(), "called by {} threads at once, each with inputs of its own: {}",
           n_threads, wrong);
  });
}

}  // namespace

// The artifact of the host locks where the plugin's says TN_AF_SERIAL_ONLY.
void check_threads(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  int calls = bench.settings().quick ? 60 : 100;
  direct.for_each_work(bench, [&](const GraphCase& small) {
    GraphCase c = large_case(direct, small, bench.settings().seed);
    CompileRequest request = direct.request(c);
    if (!direct.takes(request)) return;
    TakenWatch watch(backend);
    std::shared_ptr<Artifact> artifact = compile_with_backend(full_name(bench, backend), request);
    if (watch.took_something()) call_from_threads(*artifact, c, calls, bench.settings().seed);
  });
}

void check_parallel_compile(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  std::vector<GraphCase> cases = direct.work_cases(bench, bench.settings().quick ? 4 : 8);
  std::vector<std::vector<Tensor>> expected;
  for (const GraphCase& c : cases) expected.push_back(run_reference(c));
  int compiles = bench.settings().quick ? 4 : 20;
  on_threads(compiles, [&](int thread, int turn) {
    // Half of the threads compile one graph, the others the next one.
    size_t k = static_cast<size_t>(turn + thread % 2) % cases.size();
    std::shared_ptr<Artifact> artifact =
        compile_with_backend(full_name(bench, backend), direct.request(cases[k]));
    std::string wrong =
        difference(cases[k], call(*artifact, cases[k], cases[k].inputs), expected[k]);
    expect(wrong.empty(), "compiled by {} threads at once: {}", n_threads, wrong);
  });
}

void check_canaries(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  host_faults().guard_outputs = true;
  direct.for_each_work(bench, [&](const GraphCase& c) {
    {
      ArtifactHandle artifact = compile_directly(direct, direct.request(c));
      DirectResult result = call_directly(artifact.get(), c, c.inputs);
      expect(!result.status, "the call failed: {}", result.text());
      std::string wrong = difference(c, result.outputs, run_reference(c));
      expect(wrong.empty(), "{}", wrong);
    }
    std::string misuse = take_first_misuse();
    expect(misuse.empty(), "{}", misuse);
  });
}

// ---- structs of a newer host

namespace {

constexpr size_t future_bytes = 64;

/// A struct of the host with bytes behind it that this version does not know.
template <class T>
struct Longer {
  alignas(T) unsigned char bytes[sizeof(T) + future_bytes];
  explicit Longer(const T& known) {
    std::memset(bytes, 0xA5, sizeof bytes);
    std::memcpy(bytes, &known, sizeof(T));
    get()->struct_size = static_cast<uint32_t>(sizeof bytes);
  }
  T* get() { return reinterpret_cast<T*>(bytes); }
};

}  // namespace

namespace {

void expect_longer_structs_work(const DirectBackend& direct, const std::string& plugin,
                                const GraphCase& c) {
  CompileRequest request = direct.request(c);
  AbiRequest rq(direct.manifest(), plugin, request);
  Longer<tn_compile_request> longer(rq.abi);
  tn_artifact* made = nullptr;
  if (tn_status* status = direct.table().compile(direct.table().self, longer.get(), &made))
    fail_check("compile with a longer request failed: {}", text_and_free(status));
  ArtifactHandle artifact(made);
  std::vector<tn_tensor*> in, out(c.graph->outputs().size());
  for (const Tensor& t : c.inputs) in.push_back(t.head());
  tn_call known{};
  known.n_inputs = static_cast<uint32_t>(in.size());
  known.n_outputs = static_cast<uint32_t>(out.size());
  known.inputs = in.data();
  known.outputs = out.data();
  Longer<tn_call> longer_call(known);
  DirectResult result;
  result.status = artifact->call(artifact.get(), longer_call.get());
  for (tn_tensor* t : out) result.outputs.push_back(take_tensor(t));
  expect(!result.status, "a call with a longer tn_call failed: {}", result.text());
  std::string wrong = difference(c, result.outputs, run_reference(c));
  expect(wrong.empty(), "{}", wrong);
}

}  // namespace

void check_longer_structs(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& c) {
    expect_longer_structs_work(direct, bench.found().manifest.name, c);
  });
}

// ---- what a backend may offer

void check_supports(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  if (!direct.table().supports) skip_check("supports is not offered: it takes all or nothing");
  for (const EmbeddedFile& file : golden_graphs()) {
    GoldenGraph golden = golden_graph(file);
    if (golden.is_unbacked) continue;
    bench.note("graph " + golden.name);
    GraphCase c = *make_static_case(golden, InputStyle::contiguous, bench.settings().seed);
    CompileRequest request = direct.request(c);
    AbiRequest rq(direct.manifest(), bench.found().manifest.name, request);
    constexpr uint8_t unset = 0xEE;
    std::vector<uint8_t> verdicts(c.graph->nodes().size() + 1, unset);
    if (tn_status* s = direct.table().supports(direct.table().self, &rq.abi, verdicts.data()))
      throw CheckFailed{"supports failed: " + text_and_free(s), golden.name};
    if (verdicts.back() != unset)
      throw CheckFailed{"supports wrote more verdicts than there are nodes", golden.name};
    for (size_t i = 0; i + 1 < verdicts.size(); ++i)
      if (verdicts[i] > TN_SUPPORTED_IF_FUSED && verdicts[i] != unset)
        throw CheckFailed{message("the verdict of node {} is {}", i, verdicts[i]), golden.name};
  }
}

void check_reset(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  const tn_backend& table = direct.table();
  if (!table.reset && !table.fingerprint) skip_check("reset and fingerprint are not offered");
  auto fingerprint = [&] {
    TextSink text;
    if (table.fingerprint)
      if (tn_status* status = table.fingerprint(table.self, text.get()))
        fail_check("fingerprint failed: {}", text_and_free(status));
    return text.take();
  };
  std::string before = fingerprint();
  expect(!table.fingerprint || !before.empty(), "fingerprint writes nothing");
  direct.for_each_work(bench, [&](const GraphCase& c) {
    ArtifactHandle artifact = compile_directly(direct, direct.request(c));
    if (table.reset)
      if (tn_status* status = table.reset(table.self))
        fail_check("reset failed: {}", text_and_free(status));
    expect(fingerprint() == before, "fingerprint differs between two calls");
    DirectResult result = call_directly(artifact.get(), c, c.inputs);
    expect(!result.status, "an artifact of before reset cannot be called: {}", result.text());
    compile_directly(direct, direct.request(c));
  });
}

// ---- descriptions

namespace {

void expect_statistics(const std::string& text) {
  formats::Json stats = formats::json_or_null(text);
  expect(stats.is_object(), "TN_DESC_STATS_JSON is not a JSON object: {}", text);
  for (const char* key : {"kernels", "extern_calls", "extern_ops", "fused_nodes", "planned_bytes",
                          "naive_bytes", "compile_ms", "codegen_ms", "from_cache"})
    expect(stats.find(key) != nullptr, "TN_DESC_STATS_JSON lacks '{}': {}", key, text);
}

void expect_described(const ArtifactHandle& artifact, int32_t what) {
  TextSink sink;
  tn_status* status = artifact->describe(artifact.get(), what, sink.get());
  std::string text = sink.take();
  if (status) {
    std::string why = text_and_free(status);
    expect(what != TN_DESC_STATS_JSON, "describe(TN_DESC_STATS_JSON) failed: {}", why);
    return;
  }
  expect(is_utf8(text), "describe({}) is not valid UTF-8", what);
  if (what == TN_DESC_STATS_JSON) expect_statistics(text);
}

}  // namespace

void check_describe(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& c) {
    ArtifactHandle artifact = compile_directly(direct, direct.request(c));
    bool offered =
        artifact->struct_size > offsetof(tn_artifact_api, describe) && artifact->describe;
    if (!offered) skip_check("describe is not offered");
    for (int32_t what = TN_DESC_SOURCE; what <= TN_DESC_STATS_JSON + 1; ++what)
      expect_described(artifact, what);
  });
}

void check_process_state(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  ProcessState before = ProcessState::now();
  direct.for_each_work(bench, [&](const GraphCase& c) {
    ArtifactHandle artifact = compile_directly(direct, direct.request(c));
    call_directly(artifact.get(), c, c.inputs);
    artifact.reset();
    std::string change = before.change_to(ProcessState::now(), /*with_threads=*/false);
    expect(change.empty(), "compiling and calling {}", change);
  });
}

}  // namespace tenon::kit
