// Level 3, a host in trouble: cancelled compiles, no memory, damaged bytes, things that are
// unknown.
#include "backend/abi/status.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/robust_checks.h"
#include "debug/plugin_kit/watched_host.h"
#include "ops/op_table.h"
#include "ops/shapes.h"

#include <algorithm>

namespace tenon::kit {

namespace {

/// Both halves of what a plugin may answer.
struct Outcome {
  int32_t code = TN_OK;
  std::string text;
};

Outcome outcome_of(tn_status* status) {
  Outcome out{status ? status->code : int32_t{TN_OK}, ""};
  out.text = text_and_free(status);
  return out;
}

// Compiles and, where that succeeds, calls; results must be right where both succeed.
Outcome compile_and_call(const DirectBackend& direct, const GraphCase& c,
                         std::span<const Tensor> expected,
                         const std::function<void(tn_compile_request&)>& change = {}) {
  tn_artifact* const untouched = nullptr;
  tn_artifact* made = untouched;
  CompileRequest request = direct.request(c);
  if (tn_status* status = direct.compile(request, &made, change)) {
    Outcome out = outcome_of(status);
    expect(made == untouched, "compile failed ({}), yet wrote an artifact", out.text);
    return out;
  }
  expect(made != nullptr, "compile reported success without an artifact");
  ArtifactHandle artifact(made);
  DirectResult result = call_directly(artifact.get(), c, c.inputs);
  if (result.status) {
    for (const Tensor& t : result.outputs)
      expect(!t.defined(), "the call failed ({}), yet wrote an output", result.text());
    return {result.code(), result.text()};
  }
  std::string wrong = difference(c, result.outputs, expected);
  expect(wrong.empty(), "{}", wrong);
  return {};
}

/// What must be as before after a failure.
struct Holdings {
  int64_t blocks, artifacts, blobs, statuses;
  static Holdings now() {
    HostCounts c = host_counts();
    return {c.live_blocks, c.live_artifacts, c.live_blobs, c.live_statuses};
  }
};

void expect_same(const Holdings& before, const std::string& when) {
  Holdings after = Holdings::now();
  auto compare = [&](const char* what, int64_t a, int64_t b) {
    expect(b <= a, "P22 {} {} more than before {}", b - a, what, when);
  };
  compare("blocks of svc->alloc", before.blocks, after.blocks);
  compare("artifacts of the host", before.artifacts, after.artifacts);
  compare("blobs", before.blobs, after.blobs);
  compare("statuses", before.statuses, after.statuses);
}

bool is_refusal(const Outcome& out) {
  return out.code == TN_DECLINED || out.code == TN_UNIMPLEMENTED || out.code == TN_OK;
}

}  // namespace

void check_cancel(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& c) {
    std::vector<Tensor> expected = run_reference(c);
    for (int64_t after : {0, 1, 2, 5, 10, 50}) {
      bench.note(message("graph {}, cancelled after {} questions", c.graph->name, after));
      Holdings before = Holdings::now();
      host_faults().cancel_after = after;
      Outcome out = compile_and_call(direct, c, expected);
      expect(out.code == TN_OK || out.code == TN_CANCELLED,
             "a cancelled compile ended with status {} ({}), expected TN_CANCELLED or success",
             out.code, out.text);
      expect_same(before, "a cancelled compile");
    }
    clear_host_faults();
  });
}

namespace {

// One compile and call in which request `n` of memory fails; whether there was such a request.
bool fails_cleanly(const DirectBackend& direct, const GraphCase& c, int64_t n,
                   std::span<const Tensor> expected) {
  Holdings before = Holdings::now();
  host_faults().fail_request = n;
  Outcome out = compile_and_call(direct, c, expected);
  bool reached = host_faults().fail_request <= 0;
  clear_host_faults();
  expect(out.code == TN_OK || out.code == TN_OUT_OF_MEMORY,
         "request {} of memory failed, and it answered with status {} ({}), expected "
         "TN_OUT_OF_MEMORY or success",
         n, out.code, out.text);
  expect_same(before, message("request {} of memory failed", n));
  for (const Tensor& t : c.inputs)
    expect(impl_of(t)->references == 1, "P22 an input is still held after request {} failed", n);
  return reached;
}

}  // namespace

// Each request of memory fails once: the first, then the second, and so on.
void check_out_of_memory(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  int64_t most = bench.settings().quick ? 20 : 200;
  direct.for_each_work(bench, [&](const GraphCase& given) {
    // Inputs of its own: the case holds the first ones.
    GraphCase c{given.graph, given.copy_of_inputs(), given.symbols};
    std::vector<Tensor> expected = run_reference(c);
    for (int64_t n = 1; n <= most; ++n) {
      bench.note(message("graph {}, request {} of memory fails", c.graph->name, n));
      if (!fails_cleanly(direct, c, n, expected)) break;
    }
  });
}

void check_damaged_cache(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& c) {
    std::vector<Tensor> expected = run_reference(c);
    for (bool damage : {false, true, true, true, true}) {
      Holdings before = Holdings::now();
      host_faults().damage_cache = damage;
      Outcome out = compile_and_call(direct, c, expected);
      clear_host_faults();
      expect(out.code == TN_OK, "with {} bytes in the cache: {}", damage ? "damaged" : "good",
             out.text);
      expect_same(before, "a compile that reads the cache");
    }
  });
}

// ---- things that no plugin knows

namespace {

const OpDef unknown_row = {
    .schema = "conformance_kit::unknown(Tensor x) -> Tensor",
    .meta = fn<like>,
    .eager = [](Tensor& out, const Tensor& x) { out.copy_(x * 3.0); },
};

constexpr std::string_view unknown_op_graph = R"(tng 1
graph @unknown_op {
  input %x: f32[4, 3]
  %a: f32[4, 3] = aten.relu.default(%x)
  %b: f32[4, 3] = conformance_kit.unknown.default(%a)
  %z: f32[4, 3] = aten.neg.default(%b)
  output %z
}
)";

}  // namespace

void check_unknown_op(Bench& bench, const std::string& backend) {
  add_op(&unknown_row);
  DirectBackend direct(bench, backend);
  GoldenGraph golden = golden_graph(EmbeddedFile{"unknown_op.tng", unknown_op_graph});
  GraphCase c = direct.prepared(*make_static_case(golden, InputStyle::contiguous, 0));
  if (!direct.takes(direct.request(c))) return;
  Outcome out = compile_and_call(direct, c, run_reference(c));
  expect(is_refusal(out),
         "an unknown op ended with status {} ({}), expected TN_DECLINED, TN_UNIMPLEMENTED or "
         "success",
         out.code, out.text);
}

namespace {

void check_strange(Bench& bench, const std::string& backend, std::atomic<bool>& fault,
                   const char* what) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& c) {
    std::vector<Tensor> expected = run_reference(c);
    fault = true;
    Outcome out = compile_and_call(direct, c, expected);
    fault = false;
    expect(is_refusal(out),
           "{} of a kind that nobody knows ended with status {} ({}), expected TN_DECLINED or "
           "success",
           what, out.code, out.text);
  });
}

}  // namespace

void check_unknown_argument(Bench& bench, const std::string& backend) {
  check_strange(bench, backend, host_faults().strange_args, "an argument");
}

void check_unknown_value(Bench& bench, const std::string& backend) {
  check_strange(bench, backend, host_faults().strange_values, "a value");
}

void check_request_flags(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, bench.settings().quick ? 1 : 4, [&](const GraphCase& c) {
    std::vector<Tensor> expected = run_reference(c);
    constexpr int first_unknown = 7;
    for (int bit = first_unknown; bit < 64; ++bit) {
      bench.note(message("graph {}, request flag bit {}", c.graph->name, bit));
      Outcome out = compile_and_call(
          direct, c, expected, [&](tn_compile_request& rq) { rq.flags |= uint64_t{1} << bit; });
      if (bit >= 32)
        expect(out.code != TN_OK,
               "request flag bit {} is unknown and was not refused; bits 32..63 change what a "
               "request means",
               bit);
      else
        expect(is_refusal(out),
               "request flag bit {} ended with status {} ({}); unknown bits 0..31 "
               "are ignored",
               bit, out.code, out.text);
    }
  });
}

// ---- options

void check_no_options(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& c) {
    std::vector<Tensor> expected = run_reference(c);
    host_faults().hide_options = true;
    compile_and_call(direct, c, expected);  // any status will do, a crash will not
    host_faults().hide_options = false;
  });
}

namespace {

// Values of an option that the manifest admits, as TOML.
std::vector<OptionValue> values_of(const BackendOption& option) {
  std::vector<OptionValue> values{option.default_value};
  if (option.type == OptionType::boolean) values = {true, false};
  for (const std::string& choice : option.choices) values.emplace_back(choice);
  for (const std::optional<double>& bound : {option.min, option.max}) {
    if (!bound) continue;
    if (option.type == OptionType::integer)
      values.emplace_back(static_cast<int64_t>(*bound));
    else
      values.emplace_back(*bound);
  }
  return values;
}

}  // namespace

void check_option_values(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  if (direct.manifest().options.empty()) skip_check("the manifest declares no options");
  direct.for_each_work(bench, bench.settings().quick ? 2 : 8, [&](const GraphCase& c) {
    std::vector<Tensor> expected = run_reference(c);
    for (const BackendOption& option : direct.manifest().options)
      for (const OptionValue& value : values_of(option)) {
        CompileRequest request = direct.request(c);
        request.options_toml = option.name + " = " + to_text(value);
        bench.note(message("graph {}, option {}", c.graph->name, request.options_toml));
        ArtifactHandle artifact = compile_directly(direct, request);
        DirectResult result = call_directly(artifact.get(), c, c.inputs);
        expect(!result.status, "with {} the call failed: {}", request.options_toml, result.text());
        std::string wrong = difference(c, result.outputs, expected);
        expect(wrong.empty(), "with {}: {}", request.options_toml, wrong);
      }
  });
}

}  // namespace tenon::kit
