// Which results of an op need a gradient: a body that is recorded knows it as the tape does.
//
//   gradient_needs_test SAMPLES [op ...]
//
// Problem: while a body is recorded its tensors have no tape; whether a result needs a gradient
// follows from the op's row and arguments. Bodies ask, and go another way where the answer is wrong.
// Method: the recorded calls (or samples) of each op are made with gradients needed of all floating
// arguments and of each one alone, on the tape and into a graph. All results and all arguments must
// have the same needs afterwards.
#include "core/sym/shape_env.h"
#include "debug/op_compare.h"
#include "debug/op_recording.h"
#include "graph/record.h"
#include "ops/op_table.h"
#include "sample_call.h"
#include "sample_file.h"

#include <tenon/ops.h>

#include <cstdio>
#include <functional>
#include <map>
#include <optional>

namespace tenon::testing {
namespace {

constexpr size_t most_recorded_calls = 8;  // of an op

using MakeCall = std::function<CallValues()>;
using Needs = std::vector<bool>;

std::vector<Tensor*> floating_tensors(CallValues& call) {
  std::vector<Tensor*> out;
  auto collect = [&](Tensor& t) {
    if (t.defined() && (is_floating(t.dtype()) || is_complex(t.dtype()))) out.push_back(&t);
  };
  for (Tensor& t : call.tensors) collect(t);
  for (std::vector<Tensor>& list : call.tensor_lists)
    for (Tensor& t : list) collect(t);
  return out;
}

/// Says which of the floating tensors need a gradient: all, or one.
struct Choice {
  std::optional<size_t> only;
  bool holds(size_t i) const { return !only || *only == i; }
};

Needs needs_after(const OpEntry& op, const CallValues& call, const std::vector<Tensor*>& given) {
  OpResults results(op.n_returns);
  run_op(op, call, results);
  Needs needs;
  for (const Value& v : flattened(results)) {
    Tensor t = tensor_in(v);
    needs.push_back(t.defined() && t.requires_grad());
  }
  for (const Tensor* t : given) needs.push_back(t->requires_grad());
  return needs;
}

// As results of an op: leaves must not be written.
Needs needs_on_tape(const OpEntry& op, const MakeCall& make, Choice choice) {
  CallValues call = make();
  std::vector<Tensor*> tensors = floating_tensors(call);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (choice.holds(i)) *tensors[i] = tensors[i]->detach().requires_grad_().clone();
  return needs_after(op, call, tensors);
}

Needs needs_as_recorded(const OpEntry& op, const MakeCall& make, Choice choice) {
  CallValues call = make();
  std::vector<Tensor*> tensors = floating_tensors(call);
  GraphRecorder recorder(ShapeEnv::make());
  for (size_t i = 0; i < tensors.size(); ++i) {
    GraphValue value;
    value.flags.requires_grad = choice.holds(i);
    *tensors[i] =
        recorder.add_input(meta_of(*tensors[i]), tensors[i]->storage_offset(), std::move(value));
  }
  RecordScope scope(recorder);
  return needs_after(op, call, tensors);
}

class Checker {
 public:
  /// How many comparisons could be made.
  size_t check(const OpEntry& op, const MakeCall& make) {
    size_t n_tensors = 0;
    {
      CallValues call = make();
      n_tensors = floating_tensors(call).size();
    }
    if (n_tensors == 0) return 0;
    size_t n = compare(op, make, {});
    for (size_t i = 0; n_tensors > 1 && i < n_tensors; ++i) n += compare(op, make, {i});
    n_checks += n;
    return n;
  }

  size_t n_checks = 0, n_failed = 0;

 private:
  bool compare(const OpEntry& op, const MakeCall& make, Choice choice) {
    Needs expected, found;
    try {
      expected = needs_on_tape(op, make, choice);
    } catch (const Error&) {
      return false;  // what has no derivative
    }
    try {
      found = needs_as_recorded(op, make, choice);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::data_dependent) return false;
      throw;
    }
    if (found == expected) return true;
    ++n_failed;
    std::printf("%s, gradients of %s: results and arguments need %s, recorded %s\n",
                op.name.c_str(),
                choice.only ? message("argument tensor {} alone", *choice.only).c_str() : "all",
                text(expected).c_str(), text(found).c_str());
    return true;
  }

  static std::string text(const Needs& needs) {
    std::string out;
    for (bool need : needs) out += need ? '1' : '0';
    return out;
  }
};

class Rows {
 public:
  explicit Rows(const std::string& samples) : file_(samples) {}

  void check(const std::string& name) {
    const OpEntry& op = *find_op(name);
    if (op.out_form) return;
    const OpEntry& called = recorded_.contains(name) || !op.functional ? op : *op.functional;
    size_t n = check_recorded(op, called);
    std::vector<std::string> texts = file_.entry_for(name).calls;
    if (texts.empty() && n == 0)
      if (auto text = made_up_call(op)) texts.push_back(*text);
    for (const std::string& text : texts) n += checker.check(op, [&] { return call_of(op, text); });
    n_rows += n > 0;
  }

  Checker checker;
  size_t n_rows = 0;

 private:
  size_t check_recorded(const OpEntry& op, const OpEntry& called) {
    auto found = recorded_.find(called.name);
    if (found == recorded_.end()) return 0;
    OpRecording recording = OpRecording::read(found->second);
    size_t n = 0, n_calls = 0;
    for (const RecordedCall& c : recording.cases()) {
      if (n_calls == most_recorded_calls) break;
      try {
        n += checker.check(op, [&] { return make_call(recording, c, called, ArgumentKind::real); });
      } catch (const Error&) {
        continue;  // arguments that the host does not support
      }
      ++n_calls;
    }
    return n;
  }

  SampleFile file_;
  std::map<std::string, std::string> recorded_ = recorded_ops();
};

int run_all(const std::string& samples, const std::vector<std::string>& names) {
  Rows rows(samples);
  for (const std::string& name : names.empty() ? all_op_names() : names) rows.check(name);
  const Checker& c = rows.checker;
  std::printf("%zu rows, %zu checks, %zu failed\n", rows.n_rows, c.n_checks, c.n_failed);
  return c.n_failed != 0 || rows.n_rows == 0;
}

}  // namespace
}  // namespace tenon::testing

int main(int argc, char** argv) {
  try {
    tenon::require(argc > 1, "gradient_needs_test SAMPLES [op ...]");
    return tenon::testing::run_all(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gradient_needs_test: %s\n", e.what());
    return 2;
  }
}
