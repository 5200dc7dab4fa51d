// Runs every recorded call of PyTorch through the op table: eager values, and shapes on fakes.
//
//   op_recordings_test [--summary FILE] [--failing] [--missing] [--passes BACKEND]
//                      [--device DEVICE] [op ...]
//
// An op is a name with or without "aten." and overload; "*" at the end takes all that begin so.
// TENON_REFERENCE names the folder that holds ops/ (default: tests/recordings, unpacked). For each
// op three counts of passed cases are printed: eager (dtype, shape, values), strides (of the eager
// results), meta (dtype, shape and strides on fakes with plain sizes, then with all sizes
// symbolic), how many of the latter fixed a size to its example, vjp, parts (values of the call
// taken apart into the set core_aten, the op itself also where it is core, recorded as a graph and
// run), and the first failure. With --passes the passes of vjp are captured and compiled. With
// --device eager, meta and vjp run there; cases that nobody runs there are counted apart, as refused.
// Without op names the run fails below the thresholds at the top.
// The tolerances are those of debug/op_compare.h.
#include "call_graph.h"
#include "core/device/device_memory.h"
#include "core/sym/shape_env.h"
#include "debug/op_compare.h"
#include "folders.h"
#include "graph/text/parse.h"
#include "ops/decompose.h"

#include <tenon/autograd.h>
#include <tenon/compiled_autograd.h>
#include <tenon/ops.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

namespace tenon::testing {
namespace {

struct Threshold {
  double eager = 0.97, strides = 0.97, meta = 0.95, symbolic = 0.90, vjp = 0.97, parts = 0.98;
  double known = 0.97;  ///< of the recorded overloads
};
constexpr Threshold threshold;

struct Count {
  int passed = 0, run = 0;
  void add(bool ok) { passed += ok, ++run; }
  double rate() const { return run ? static_cast<double>(passed) / run : 1; }
  std::string text() const { return message("{}/{}", passed, run); }
  Count& operator+=(const Count& o) { return passed += o.passed, run += o.run, *this; }
};

struct OpReport {
  std::string op = {};
  Count eager = {}, strides = {}, meta = {}, symbolic = {}, vjp = {}, parts = {};
  int refused = 0;  ///< cases that nobody runs on the device
  int fixed = 0;    ///< cases in which a symbolic size was fixed to its example
  std::string first = {}, refusal = {};  ///< the first failure, and why a case was refused
  bool failed() const { return !first.empty(); }
};

// ---- one case

void require_device(const OpRecording& r, const Tensor& t) {
  require(!t.defined() || t.device() == r.device(), "a result is on {}, expected {}",
          t.defined() ? t.device() : kCPU, r.device());
}

// Results are compared on the CPU.
Tensor at_home(const OpRecording& r, const Tensor& t) {
  require_device(r, t);
  return t.defined() ? on_host(t) : t;
}

void bring_home(const OpRecording& r, OpResults& results) {
  if (r.device() == kCPU) return;
  for (Value& v : results.values) {
    if (v.tag == Tag::tensor_owned) {
      v = Value::own(at_home(r, take<Tensor>(v)));
    } else if (v.tag == Tag::tensors_owned) {
      auto list = take<std::vector<Tensor>>(v);
      for (Tensor& t : list) t = at_home(r, t);
      v = Value::own(std::move(list));
    }
  }
}

// Notes that nobody runs the case on the device, if that is what went wrong.
bool is_refused(const OpRecording& r, const std::string& what, OpReport& report) {
  if (r.device() == kCPU || what.find("cannot run on") == std::string::npos) return false;
  ++report.refused;
  if (report.refusal.empty()) report.refusal = what;
  return true;
}

void note(OpReport& report, const RecordedCall& c, std::string_view mode, const std::string& what) {
  if (!what.empty() && report.first.empty())
    report.first = message("case {} {}: {}", c.index, mode, what);
}

void run_eager(const OpRecording& r, const OpEntry& op, const RecordedCall& c, OpReport& report) {
  OpDifference d;
  try {
    CallValues call = make_call(r, c, op, ArgumentKind::real);
    OpResults results(op.n_returns);
    run_op(op, call, results);
    bring_home(r, results);
    d = compare_results(r, op, c, results, true);
  } catch (const std::exception& e) {
    d = {e.what(), e.what()};
  }
  if (is_refused(r, d.values, report)) return;
  report.eager.add(d.values.empty());
  report.strides.add(d.strides.empty());
  note(report, c, "eager", d.values);
  note(report, c, "strides", d.strides);
}

void run_meta_of(const OpRecording& r, const OpEntry& op, const RecordedCall& c, ArgumentKind kind,
                 OpReport& report) {
  std::string what;
  try {
    std::shared_ptr<ShapeEnv> env = ShapeEnv::make();
    ShapeEnvScope symbols(*env);
    CallValues call = make_call(r, c, op, kind);
    FakeScope fakes;
    OpResults results(op.n_returns);
    run_op(op, call, results);
    OpDifference d = compare_results(r, op, c, results, false);
    for (const Value& v : flattened(results)) require_device(r, tensor_in(v));
    what = d.values.empty() ? d.strides : d.values;
    report.fixed += !env->specializations().empty();
  } catch (const Error& e) {
    // The value of a tensor decides the shape: nothing to compare.
    if (e.code() != ErrorCode::data_dependent) what = e.what();
  } catch (const std::exception& e) {
    what = e.what();
  }
  (kind == ArgumentKind::fake ? report.meta : report.symbolic).add(what.empty());
  note(report, c, kind == ArgumentKind::fake ? "meta" : "symbolic", what);
}

// What the tape gives for the recorded cotangents, or why not.
std::string compare_vjp(const OpRecording& r, const OpEntry& op, const RecordedCall& c) {
  CallValues call = make_call(r, c, op, ArgumentKind::real);
  std::vector<Tensor> inputs = recorded_float_tensors(c, call);
  for (const Tensor& t : inputs) t.requires_grad_();
  OpResults results(op.n_returns);
  run_op(op, call, results);
  std::vector<Value> flat = flattened(results);
  std::vector<Tensor> outputs, cotangents;
  for (const auto& [index, description] : c.vjp->field("cotangents").members()) {
    outputs.push_back(tensor_in(flat.at(std::stoul(std::string(index)))));
    cotangents.push_back(r.placed(r.tensor(description)));
  }
  std::vector<Tensor> grads =
      autograd::grad(outputs, inputs, {.grad_outputs = cotangents, .allow_unused = true});
  std::vector<formats::JsonView> expected = c.vjp->field("grads").items();
  require(expected.size() == inputs.size(), "{} gradients are recorded for {} floating tensors",
          expected.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (expected[i].is_null() && !grads[i].defined()) continue;
    Tensor wanted =
        expected[i].is_null() ? on_host(inputs[i].detach()).zeros_like() : r.tensor(expected[i]);
    Tensor found = at_home(r, grads[i].defined() ? grads[i] : inputs[i].detach().zeros_like());
    OpDifference d = compare_gradient(found.detach(), wanted);
    if (!d.values.empty()) return message("gradient {}: {}", i, d.values);
  }
  return {};
}

void run_vjp(const OpRecording& r, const OpEntry& op, const RecordedCall& c, OpReport& report) {
  if (!c.vjp || op.mutated_args) return;
  std::string what;
  try {
    what = compare_vjp(r, op, c);
  } catch (const std::exception& e) {
    what = e.what();
  }
  if (is_refused(r, what, report)) return;
  report.vjp.add(what.empty());
  note(report, c, "vjp", what);
}

std::string compare_parts(const OpRecording& r, const OpEntry& op, const RecordedCall& c) {
  CallValues call = make_call(r, c, op, ArgumentKind::real);
  std::vector<Tensor> outputs = run_graph(graph_of_parts(op, call));
  std::vector<formats::JsonView> expected = expected_of(c);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_recorded_tensor(expected.at(i))) continue;
    OpDifference d = compare_tensor(outputs[i], r.tensor(expected[i]), op, true);
    if (!d.values.empty()) return message("result {}: {}", i, d.values);
  }
  return {};
}

void run_parts(const OpRecording& r, const OpEntry& op, const RecordedCall& c, OpReport& report) {
  if (!can_decompose(op) || op.mutated_args) return;
  std::string what;
  try {
    what = compare_parts(r, op, c);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::data_dependent) return;
    what = e.what();
  } catch (const std::exception& e) {
    what = e.what();
  }
  report.parts.add(what.empty());
  note(report, c, "parts", what);
}

OpReport run_recording(const OpRecording& r, const OpEntry& op) {
  OpReport report{.op = r.op()};
  for (const RecordedCall& c : r.cases()) {
    run_eager(r, op, c, report);
    run_meta_of(r, op, c, ArgumentKind::fake, report);
    if (r.device() != kCPU) {
      run_vjp(r, op, c, report);
      continue;
    }
    run_meta_of(r, op, c, ArgumentKind::symbolic, report);
    run_vjp(r, op, c, report);
    run_parts(r, op, c, report);
  }
  return report;
}

// ---- the program

struct Options {
  std::string summary, passes;
  Device device = kCPU;
  bool failing = false, missing = false;
  std::vector<std::string> ops;
};

Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--summary" && i + 1 < argc)
      o.summary = argv[++i];
    else if (arg == "--passes" && i + 1 < argc)
      o.passes = argv[++i];
    else if (arg == "--device" && i + 1 < argc)
      o.device = parse_device(argv[++i]).value();
    else if (arg == "--failing")
      o.failing = true;
    else if (arg == "--missing")
      o.missing = true;
    else
      o.ops.push_back(arg);
  }
  return o;
}

bool wanted(const std::string& op, const std::vector<std::string>& names) {
  if (names.empty()) return true;
  return std::any_of(names.begin(), names.end(), [&](std::string name) {
    if (!name.starts_with("aten.")) name = "aten." + name;
    if (name.back() == '*') return op.starts_with(name.substr(0, name.size() - 1));
    return op == name || op.starts_with(name + ".");
  });
}

std::string line_of(const OpReport& r) {
  std::string refused = r.refused ? message(" refused {} ({})", r.refused, r.refusal) : "";
  return message("{}: eager {} strides {} meta {} symbolic {} fixed {} vjp {} parts {}{}{}{}", r.op,
                 r.eager.text(), r.strides.text(), r.meta.text(), r.symbolic.text(), r.fixed,
                 r.vjp.text(), r.parts.text(), refused, r.failed() ? "  " : "", r.first);
}

std::string name_in(const std::string& path) {
  size_t slash = path.rfind('/');
  return path.substr(slash + 1, path.size() - slash - 1 - std::string_view(".safetensors").size());
}

int verdict(const OpReport& total, const Count& known) {
  bool enough = total.eager.rate() >= threshold.eager &&
                total.strides.rate() >= threshold.strides && total.meta.rate() >= threshold.meta &&
                total.symbolic.rate() >= threshold.symbolic && total.vjp.rate() >= threshold.vjp &&
                total.parts.rate() >= threshold.parts && known.rate() >= threshold.known;
  if (!enough) std::printf("below the thresholds at the top of op_recordings_test.cpp\n");
  return enough ? 0 : 1;
}

int run_all(const Options& options) {
  std::vector<std::string> recordings = files_in(reference_folder("ops"), ".safetensors");
  require(!recordings.empty(), "{}", nothing_in(reference_folder("ops")));
  std::ofstream summary;
  if (!options.summary.empty()) summary.open(options.summary);
  if (!options.passes.empty()) compiled_autograd::enable_everywhere(options.passes);
  OpReport total{.op = "all"};
  Count known;
  for (const std::string& path : recordings) {
    std::string name = name_in(path);
    if (!wanted(name, options.ops)) continue;
    const OpEntry* op = find_op(name);
    known.add(op);
    if (!op) {
      if (options.missing) std::printf("%s: not in the table\n", name.c_str());
      continue;
    }
    OpRecording recording = OpRecording::read(path);
    recording.place_on(options.device);
    OpReport report = run_recording(recording, *op);
    total.refused += report.refused;
    total.eager += report.eager, total.strides += report.strides;
    total.meta += report.meta, total.symbolic += report.symbolic, total.fixed += report.fixed;
    total.vjp += report.vjp, total.parts += report.parts;
    std::string line = line_of(report);
    if (!options.failing || report.failed()) std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    summary << line << "\n";
  }
  std::string last = line_of(total) + message("  ({} ops of the recorded ones)", known.text());
  std::printf("%s\n", last.c_str());
  summary << last << "\n";
  if (!options.passes.empty()) {
    compiled_autograd::Stats passes = compiled_autograd::stats();
    std::printf("%s\n", message("{} captures, {} hits, {} on the engine, {} left", passes.captures,
                                passes.hits, passes.eager_passes, passes.departures)
                            .c_str());
  }
  return options.ops.empty() ? verdict(total, known) : total.eager.passed < total.eager.run;
}

}  // namespace
}  // namespace tenon::testing

int main(int argc, char** argv) {
  try {
    return tenon::testing::run_all(tenon::testing::parse_options(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "op_recordings_test: %s\n", e.what());
    return 2;
  }
}
