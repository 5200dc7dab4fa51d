// Checks the derivative of every recorded op with central differences in f64, once and twice.
//
//   grad_check_test [--failing] [op ...]
//
// TENON_REFERENCE names the folder that holds ops/ (default: tests/recordings, unpacked). Of each
// op that PyTorch differentiates up to three small recorded calls are repeated in f64. Without op
// names the run fails below the thresholds at the top.
#include "debug/op_compare.h"
#include "folders.h"
#include "wide_call.h"

#include <tenon/autograd.h>
#include <tenon/ops.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <set>

namespace tenon::testing {
namespace {

constexpr double least_first = 0.97, least_second = 0.90;
constexpr int64_t most_elements = 40;
constexpr int cases_per_op = 3;

struct Count {
  int passed = 0, run = 0;
  void add(bool ok) { passed += ok, ++run; }
  double rate() const { return run ? static_cast<double>(passed) / run : 1; }
};

// Steps where the function jumps or has a kink within the step: a difference says nothing there.
const std::set<std::string> kinked = {
    "aten.nextafter.default",  // the result is the neighbour, its derivative a convention
};

bool is_small(const CallValues& call) {
  int64_t elements = 0;
  for (const auto& [key, t] : call.recorded)
    if (is_floating(t.dtype())) elements += t.numel().guard_int();
  return elements > 0 && elements <= most_elements;
}

struct OpVerdict {
  Count first, second;
  std::string failure;
};

// Results that the recording gives no cotangent for are not part of the derivative.
std::vector<Tensor> differentiated(const RecordedCall& c, const std::vector<Tensor>& results) {
  std::vector<Tensor> out;
  for (const auto& [index, description] : c.vjp->field("cotangents").members())
    out.push_back(results.at(std::stoul(std::string(index))));
  return out;
}

void check_case(const OpRecording& r, const OpEntry& op, const RecordedCall& c, OpVerdict& v) {
  WideCall call(op, make_call(r, c, op, ArgumentKind::real));
  auto f = [&](const std::vector<Tensor>& in) { return differentiated(c, call.run(in)); };
  std::string wrong;
  try {
    wrong = autograd::grad_check(f, call.inputs());
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  v.first.add(wrong.empty());
  if (wrong.empty()) {
    try {
      wrong = autograd::grad_check(f, call.inputs(), {.second_order = true});
    } catch (const std::exception& e) {
      wrong = std::string("second order: ") + e.what();
    }
    v.second.add(wrong.empty());
  }
  if (!wrong.empty() && v.failure.empty()) v.failure = message("case {}: {}", c.index, wrong);
}

OpVerdict check_op(const OpRecording& r, const OpEntry& op) {
  OpVerdict v;
  for (const RecordedCall& c : r.cases()) {
    if (!c.vjp || op.mutated_args || v.first.run == cases_per_op) continue;
    try {
      if (!is_small(make_call(r, c, op, ArgumentKind::real))) continue;
    } catch (const UserError&) {
      continue;
    }
    check_case(r, op, c, v);
  }
  return v;
}

std::string name_in(const std::string& path) {
  size_t slash = path.rfind('/') + 1;
  return path.substr(slash, path.size() - slash - std::string_view(".safetensors").size());
}

int run_all(bool failing_only, const std::vector<std::string>& names) {
  std::vector<std::string> recordings = files_in(reference_folder("ops"), ".safetensors");
  require(!recordings.empty(), "{}", nothing_in(reference_folder("ops")));
  Count first, second;
  for (const std::string& path : recordings) {
    std::string name = name_in(path);
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    const OpEntry* op = find_op(name);
    if (!op || kinked.contains(name)) continue;
    OpVerdict v = check_op(OpRecording::read(path), *op);
    first.passed += v.first.passed, first.run += v.first.run;
    second.passed += v.second.passed, second.run += v.second.run;
    if (v.first.run && (!failing_only || !v.failure.empty()))
      std::printf("%s: first %d/%d second %d/%d  %s\n", name.c_str(), v.first.passed, v.first.run,
                  v.second.passed, v.second.run, v.failure.c_str());
    std::fflush(stdout);
  }
  std::printf("all: first %d/%d second %d/%d\n", first.passed, first.run, second.passed,
              second.run);
  if (!names.empty()) return first.passed < first.run;
  return first.rate() >= least_first && second.rate() >= least_second && first.run > 0 ? 0 : 1;
}

}  // namespace
}  // namespace tenon::testing

int main(int argc, char** argv) {
  try {
    bool failing = argc > 1 && std::string_view(argv[1]) == "--failing";
    return tenon::testing::run_all(failing, {argv + 1 + failing, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "grad_check_test: %s\n", e.what());
    return 2;
  }
}
