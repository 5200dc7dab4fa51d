// Rows of the op table that no recording of PyTorch covers, held against each other's fields.
//
//   op_samples_test FILE [--failing] [op ...]
//
// Problem. A row says what an op means several times over: kernel, shape function, decomposition,
// derivative, in-place form. Recordings test all of them, but only of ops that PyTorch recorded.
// Method. The other rows are called with the samples of FILE, else with a call made up from the
// schema (sample_call.h), and
//   meta       fakes have dtype, sizes and strides of the kernel's results
//   symbolic   the same with symbols as sizes
//   parts      the op in terms of core ops gives what the kernel gives
//   in_place   `x.op_()` leaves in x what `x.op()` gives, also on the recorded calls of `op`
//   gradient   the tape agrees with central differences in f64
//   inductor   compiled code gives what the kernel gives
// Lines of FILE are `OP ARGUMENTS`, `OP without CHECK: why`, or `OP untested: why` (an op, or `ns.*`). A row with none
// of recording, sample and reason fails, and so does a reason that nothing needs any more.
#include "call_graph.h"
#include "compile/compile_graph.h"
#include "core/sym/shape_env.h"
#include "core/tensor/each_tensor.h"
#include "debug/compare.h"
#include "folders.h"
#include "ops/decompose.h"
#include "sample_call.h"
#include "sample_file.h"
#include "wide_call.h"

#include <tenon/autograd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

namespace tenon::testing {
namespace {

// ---- checks of one call; an empty text is good, nothing means that the check says nothing

using Outcome = std::optional<std::string>;

/// One call, made anew for each use: ops may write their arguments.
struct Sample {
  const OpEntry& op;
  std::function<CallValues()> make;
};

std::vector<Tensor> tensors_of(const OpResults& results) {
  std::vector<Tensor> out;
  for (const Value& v : flattened(results)) out.push_back(tensor_in(v));
  return out;
}

std::vector<Tensor> run(const OpEntry& op, const CallValues& call) {
  OpResults results(op.n_returns);
  run_op(op, call, results);
  return tensors_of(results);
}
std::vector<Tensor> run(const Sample& sample) { return run(sample.op, sample.make()); }

bool gives_tensors(const Sample& sample) {
  std::vector<Tensor> results = run(sample);
  return !results.empty() && std::ranges::all_of(results, &Tensor::defined);
}

bool is_exact(const OpEntry& op) { return !(op.tags & (TN_TAG_RANDOM | TN_TAG_NONDETERMINISTIC)); }

std::string difference(const OpEntry& op, const std::vector<Tensor>& found,
                       const std::vector<Tensor>& expected, bool with_values) {
  if (found.size() != expected.size())
    return message("{} results, {} are expected", found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined() != expected[i].defined()) return message("result {} is missing", i);
    if (!found[i].defined()) continue;
    OpDifference d = compare_tensor(found[i], expected[i], op, with_values);
    const std::string& what = d.values.empty() ? d.strides : d.values;
    if (!what.empty()) return message("result {}: {}", i, what);
  }
  return "";
}

Outcome compare_fakes(const Sample& sample, ArgumentKind kind) {
  if (!gives_tensors(sample)) return {};
  std::vector<Tensor> expected = run(sample);
  std::shared_ptr<ShapeEnv> env = ShapeEnv::make();
  ShapeEnvScope symbols(*env);
  CallValues call = sample.make();
  make_fakes(call, kind);
  FakeScope fakes;
  try {
    OpResults results(sample.op.n_returns);
    run_op(sample.op, call, results);
    return difference(sample.op, tensors_of(results), expected, false);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::data_dependent) return {};
    throw;
  }
}
Outcome check_meta(const Sample& sample) { return compare_fakes(sample, ArgumentKind::fake); }
Outcome check_symbolic(const Sample& sample) {
  return compare_fakes(sample, ArgumentKind::symbolic);
}

Outcome check_parts(const Sample& sample) {
  const OpEntry& op = sample.op;
  if (!can_decompose(op) || op.mutated_args || !is_exact(op) || !gives_tensors(sample)) return {};
  try {
    return difference(op, run_graph(graph_of_parts(op, sample.make())), run(sample), true);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::data_dependent) return {};
    throw;
  }
}

// Ops that write a list, as `_foreach_add_.List`, leave in it what `_foreach_add.List` gives.
Outcome check_list_in_place(const Sample& sample) {
  std::string name(sample.op.name);
  size_t mark = name.rfind("_.");
  const OpEntry* functional =
      mark == name.npos ? nullptr : find_op(name.substr(0, mark) + name.substr(mark + 1));
  if (!functional) return {};
  std::vector<Tensor> expected = run(*functional, sample.make()), written;
  CallValues call = sample.make();
  run(sample.op, call);
  each_tensor(call.values[0], [&](const Tensor& t) { written.push_back(t); });
  return difference(sample.op, written, expected, true);
}

Outcome check_in_place(const Sample& sample) {
  const OpEntry& op = sample.op;
  if (op.schema.is_for_parts() && op.n_returns == 0) return check_list_in_place(sample);
  if (!op.functional || op.out_form || !is_exact(op)) return {};
  std::vector<Tensor> expected = run(*op.functional, sample.make());
  CallValues call = sample.make();
  run(op, call);
  Tensor written = tensor_in(call.values[0]);
  // It keeps its strides.
  return compare_tensor(written, expected[0].to(written.dtype()), op, true).values;
}

// Which results have a derivative in f64.
std::vector<size_t> differentiable_results(WideCall& call) {
  std::vector<Tensor> leaves = call.inputs();
  for (const Tensor& t : leaves) t.requires_grad_();
  std::vector<Tensor> results = call.run(leaves);
  std::vector<size_t> found;
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].dtype() == Dtype::f64 && results[i].requires_grad()) found.push_back(i);
  return found;
}

Outcome check_gradient(const Sample& sample) {
  const OpEntry& op = sample.op;
  if (op.mutated_args || op.def->vjp.kind == Vjp::Kind::none || !is_exact(op)) return {};
  WideCall call(op, sample.make());
  try {
    std::vector<size_t> wanted = differentiable_results(call);
    if (wanted.empty()) return {};
    auto f = [&](const std::vector<Tensor>& inputs) {
      std::vector<Tensor> all = call.run(inputs), out;
      for (size_t i : wanted) out.push_back(all[i]);
      return out;
    };
    return autograd::grad_check(f, call.inputs());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) return {};  // the row says that it has none
    throw;
  }
}

Outcome check_inductor(const Sample& sample) {
  const OpEntry& op = sample.op;
  if (!is_exact(op) || !gives_tensors(sample)) return {};
  CallGraph call = graph_of_call(op, sample.make(), nullptr);
  std::vector<Tensor> expected = run_graph(graph_of_call(op, sample.make(), nullptr));
  auto artifact = compile_graph(call.graph, {.backend = "inductor", .use_cache = false});
  std::vector<int64_t> symbols(call.graph->symbols.size());
  std::vector<Tensor> found(call.graph->outputs().size());
  std::vector<detail::TensorHead*> heads = call.heads();
  artifact->call(heads, symbols, found);
  for (size_t i = 0; i < found.size(); ++i) {
    std::string meta = difference(op, {found[i]}, {expected[i]}, false);
    if (!meta.empty()) return message("result {}: {}", i, meta);
    Comparison c = compare_tensors(found[i], expected[i]);
    if (!c.ok) return message("result {}: {} off, {}", i, c.max_abs, c.problem);
  }
  return "";
}

constexpr struct {
  const char* name;
  Outcome (*check)(const Sample&);
} checks[] = {{"meta", check_meta},         {"symbolic", check_symbolic},
              {"parts", check_parts},       {"in_place", check_in_place},
              {"gradient", check_gradient}, {"inductor", check_inductor}};
constexpr size_t n_checks = std::size(checks);

// ---- rows

struct Counts {
  int recorded = 0, sampled = 0, made_up = 0, untested = 0, bare = 0, failed = 0;
  int ran[n_checks] = {};
};

class Rows {
 public:
  Rows(const std::string& file, bool only_failing) : file_(file), only_failing_(only_failing) {}

  void check(const std::string& name) {
    if (recorded_.contains(name)) return void(++counts.recorded);
    const OpEntry& op = *find_op(name);
    const SampleEntry& entry = file_.entry_for(name);
    if (entry.untested) return void(++counts.untested);
    std::vector<std::string> texts = entry.calls;
    bool is_made_up = texts.empty();
    if (is_made_up)
      if (auto text = made_up_call(op)) texts.push_back(*text);
    int n_said = op.functional ? check_recorded(op, entry) : 0;
    for (const std::string& text : texts)
      n_said += check_call({op, [&op, text] { return call_of(op, text); }}, entry, text);
    if (n_said == 0) return fail_bare(name, texts.empty());
    (is_made_up ? counts.made_up : counts.sampled) += 1;
  }

  void check_names(const std::vector<std::string>& known) {
    for (const auto& [name, entry] : file_.entries())
      if (!name.ends_with(".*") && (!std::ranges::count(known, name) || recorded_.contains(name)))
        fail(name, "the file names it, and it is recorded or not in the table");
  }

  Counts counts;

 private:
  void fail(const std::string& name, const std::string& why) {
    ++counts.failed;
    std::printf("%s: %s\n", name.c_str(), why.c_str());
    std::fflush(stdout);
  }

  void fail_bare(const std::string& name, bool lacks_call) {
    ++counts.bare;
    std::printf("%s: %s; write a call into the file, or why there is none\n", name.c_str(),
                lacks_call ? "no call of it can be made up" : "no check says anything of it");
  }

  // The calls that PyTorch recorded of the functional form, where the in-place form takes them.
  int check_recorded(const OpEntry& op, const SampleEntry& entry) {
    auto found = recorded_.find(op.functional->name);
    if (found == recorded_.end() || entry.without.contains("in_place")) return 0;
    OpRecording recording = OpRecording::read(found->second);
    int n = 0;
    for (const RecordedCall& c : recording.cases()) {
      Sample sample{op,
                    [&] { return make_call(recording, c, *op.functional, ArgumentKind::real); }};
      try {
        Outcome outcome = check_in_place(sample);
        n += outcome.has_value();
        if (outcome && !outcome->empty())
          fail(op.name, message("recorded call {}: {}", n, *outcome));
      } catch (const Error&) {
        // Broadcasting and promotion give what has no place in self.
      }
    }
    return n;
  }

  // How many checks said something.
  int check_call(const Sample& sample, const SampleEntry& entry, const std::string& text) {
    int n_said = 0;
    for (size_t i = 0; i < n_checks; ++i) {
      std::string wrong;
      try {
        Outcome outcome = checks[i].check(sample);
        counts.ran[i] += outcome.has_value();
        n_said += outcome.has_value();
        wrong = outcome.value_or("");
      } catch (const std::exception& error) {
        wrong = error.what();
        ++n_said;
      }
      bool is_excused = entry.without.contains(checks[i].name);
      if (!wrong.empty() && !is_excused)
        fail(sample.op.name, message("{} ({}): {}", checks[i].name, text, wrong));
      if (wrong.empty() && is_excused && entry.calls.size() <= 1)
        fail(sample.op.name, message("{} passes: take its reason out of the file", checks[i].name));
    }
    if (!only_failing_) std::printf("%s: %s\n", sample.op.name.c_str(), text.c_str());
    return n_said;
  }

  SampleFile file_;
  std::map<std::string, std::string> recorded_ = recorded_ops();
  bool only_failing_;
};

int run_all(const std::string& file, bool only_failing, const std::vector<std::string>& names) {
  Rows rows(file, only_failing);
  std::vector<std::string> all = all_op_names();
  if (names.empty()) rows.check_names(all);
  for (const std::string& name : names.empty() ? all : names) rows.check(name);
  const Counts& c = rows.counts;
  std::printf("%s\n",
              message("{} recorded, {} with samples, {} made up, {} with a reason, {} bare; "
                      "{} failures",
                      c.recorded, c.sampled, c.made_up, c.untested, c.bare, c.failed)
                  .c_str());
  for (size_t i = 0; i < n_checks; ++i)
    std::printf("%s%s %d", i ? ", " : "", checks[i].name, c.ran[i]);
  std::printf("\n");
  return c.failed || c.bare ? 1 : 0;
}

}  // namespace
}  // namespace tenon::testing

int main(int argc, char** argv) {
  try {
    tenon::require(argc > 1, "op_samples_test FILE [--failing] [op ...]");
    bool failing = argc > 2 && std::string_view(argv[2]) == "--failing";
    return tenon::testing::run_all(argv[1], failing, {argv + 2 + failing, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "op_samples_test: %s\n", e.what());
    return 2;
  }
}
