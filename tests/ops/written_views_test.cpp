// What ops write into views, compiled: every backend leaves in the whole memory what eager leaves.
//
//   written_views_test SAMPLES [op ...]
//
// Problem: compiled graphs do not write. What an op writes becomes a value, which goes up the chain
// of views into the tensor that owns the memory; a write that is forgotten on the way is silent,
// since the op's result still is right.
// Method: of each op, the first recorded call (or sample) that it takes. The arguments that the op
// writes, itself (also where its schema keeps that secret) or in its out forms, become views of
// larger tensors (turned around, with steps, away from the beginning), in a graph that is
// interpreted and then compiled by each backend for the CPU that is there; these tensors are inputs,
// then computed in the graph. All inputs and all results must be equal, or the backend says that it
// does not support the graph.
#include "call_graph.h"
#include "compile/compile_graph.h"
#include "debug/compare.h"
#include "graph/record.h"
#include "sample_call.h"
#include "sample_file.h"

#include <tenon/compile.h>
#include <tenon/ops.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace tenon::testing {
namespace {

// ---- views

std::vector<int64_t> known_sizes(const Tensor& t) {
  std::vector<int64_t> out;
  for (const SymInt& size : t.sizes()) out.push_back(size.guard_int());
  return out;
}

/// Room for such a tensor in each second element, turned around, away from the beginning.
Tensor memory_for(const Tensor& like) {
  std::vector<int64_t> sizes = known_sizes(like), room(sizes.rbegin(), sizes.rend());
  if (room.empty()) room = {1};
  room.back() *= 2;
  room.front() += 3;
  return full(room, 3).to(like.dtype());
}

Tensor view_in(const Tensor& memory, size_t rank) {
  std::vector<int64_t> turned;
  for (size_t d = rank; d-- > 0;) turned.push_back(static_cast<int64_t>(d));
  Tensor inner = memory.narrow(0, 1, known_sizes(memory)[0] - 3).slice(-1, 0, std::nullopt, 2);
  return rank == 0 ? inner.select(0, 0) : inner.permute(turned);
}

// ---- calls that write

using MakeCall = std::function<CallValues()>;

/// A call in which what is written are views, and the places of those among its arguments.
struct WritingCall {
  CallValues call;
  std::vector<size_t> written;
};

std::vector<size_t> written_places(const OpEntry& op, const CallValues& call) {
  std::vector<size_t> out;
  for (size_t i = 0; i < op.n_args; ++i)
    if (op.mutated_args >> i & 1 && tensor_in(call.values[i]).defined()) out.push_back(i);
  return out;
}

/// The same of an op whose schema says nothing of it: arguments that another version has after a call.
std::vector<size_t> secretly_written(const OpEntry& op, const CallValues& call) {
  std::vector<std::pair<size_t, uint64_t>> before;
  for (size_t i = 0; i < call.values.size(); ++i)
    if (Tensor t = tensor_in(call.values[i]); t.defined()) before.emplace_back(i, t.version());
  OpResults results(op.n_returns);
  run_op(op, call, results);
  std::vector<size_t> out;
  for (auto [i, version] : before)
    if (tensor_in(call.values[i]).version() != version) out.push_back(i);
  return out;
}

// The functional call with an argument more for each result; what those say is no argument.
CallValues out_call(const OpEntry& op, const MakeCall& make) {
  const OpEntry& functional = *op.functional;
  OpResults results(functional.n_returns);
  run_op(functional, make(), results);
  CallValues call = make();
  std::vector<Value> given = std::move(call.values);
  call.values.clear();
  for (size_t i = 0; i < given.size(); ++i)
    if (op.schema.find_arg(functional.schema.args[i].name) >= 0) call.values.push_back(given[i]);
  for (const Value& v : flattened(results)) {
    call.tensors.push_back(zeros_like(tensor_in(v)));
    call.values.push_back(Value::of(call.tensors.back()));
  }
  return call;
}

WritingCall writing_call(const OpEntry& op, const MakeCall& make) {
  CallValues call = op.out_form ? out_call(op, make) : make();
  std::vector<size_t> written =
      op.mutated_args ? written_places(op, call) : secretly_written(op, make());
  return {std::move(call), std::move(written)};
}

// Inputs come in the order in which the views are made, then in that of the call.
CallGraph graph_of_writes(const OpEntry& op, WritingCall given, bool is_computed) {
  CallGraph out;
  std::vector<Tensor> memories;
  for (size_t place : given.written) {
    Tensor content = tensor_in(given.call.values[place]);
    memories.push_back(memory_for(content));
    view_in(memories.back(), content.sizes().size()).copy_(content);
  }
  GraphRecorder recorder(ShapeEnv::make());
  lift_into(out, recorder);
  RecordScope scope(recorder);
  for (size_t i = 0; i < memories.size(); ++i) {
    if (is_computed) memories[i] = memories[i].clone();
    Value& value = given.call.values[given.written[i]];
    given.call.tensors.push_back(view_in(memories[i], tensor_in(value).sizes().size()));
    value = Value::of(given.call.tensors.back());
  }
  OpResults results(op.n_returns);
  run_op(op, given.call, results);
  std::vector<Tensor> outputs;
  for (const Value& v : flattened(results)) outputs.push_back(tensor_in(v));
  if (is_computed) outputs.insert(outputs.end(), memories.begin(), memories.end());
  out.graph = recorder.finish(outputs);
  return out;
}

// ---- running

/// All that a caller sees: inputs, then results.
std::vector<Tensor> seen_by_caller(const CallGraph& call, std::vector<Tensor> results) {
  std::vector<Tensor> all = call.inputs;
  all.insert(all.end(), results.begin(), results.end());
  return all;
}

std::vector<Tensor> run_compiled(const CallGraph& call, const std::string& backend) {
  auto artifact = compile_graph(call.graph, {.backend = backend, .use_cache = false});
  std::vector<int64_t> symbols(call.graph->symbols.size());
  std::vector<Tensor> found(call.graph->outputs().size());
  std::vector<detail::TensorHead*> heads = call.heads();
  artifact->call(heads, symbols, found);
  return seen_by_caller(call, found);
}

std::string difference(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                       size_t n_inputs) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined() && !expected[i].defined()) continue;
    Comparison c = compare_tensors(found[i], expected[i]);
    if (!c.ok)
      return message("{} {}: {} off {}", i < n_inputs ? "input" : "result",
                     i < n_inputs ? i : i - n_inputs, c.max_abs, c.problem);
  }
  return "";
}

class Checker {
 public:
  Checker() {
    for (const std::string& name : list_backends({}))
      if (tested.contains(name)) backends_.insert(name);
  }

  /// Whether the call can be made, and writes.
  bool check(const OpEntry& op, const MakeCall& make) {
    return check(op, make, false) && check(op, make, true);
  }

  size_t n_checks = 0, n_refused = 0, n_failed = 0;

 private:
  bool check(const OpEntry& op, const MakeCall& make, bool is_computed) {
    std::vector<Tensor> expected;
    size_t n_inputs = 0;
    try {
      WritingCall writing = writing_call(op, make);
      if (writing.written.empty()) return false;
      CallGraph call = graph_of_writes(op, std::move(writing), is_computed);
      expected = seen_by_caller(call, run_graph(call));
      n_inputs = call.inputs.size();
    } catch (const Error&) {
      return false;  // what is not written in place with these sizes and dtypes
    }
    for (const std::string& backend : backends_) {
      std::string why;
      try {
        why = difference(
            run_compiled(graph_of_writes(op, writing_call(op, make), is_computed), backend),
            expected, n_inputs);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::unsupported) {
          ++n_refused;
          continue;
        }
        why = error.what();
      }
      ++n_checks;
      if (why.empty()) continue;
      ++n_failed;
      std::printf("%s on %s: %s\n", op.name.c_str(), backend.c_str(), why.c_str());
    }
    return true;
  }

  inline static const std::set<std::string> tested{"eager", "aot_eager", "inductor", "ts", "nnc"};
  std::set<std::string> backends_;
};

// ---- rows

bool is_exact(const OpEntry& op) { return !(op.tags & (TN_TAG_RANDOM | TN_TAG_NONDETERMINISTIC)); }

/// The out forms whose names follow from the row's.
std::vector<const OpEntry*> out_forms(const OpEntry& op) {
  std::vector<std::string> overloads = {"out", op.schema.overload + "_out"};
  if (op.schema.name.ends_with("_backward")) overloads.push_back("grad_input");
  for (const SchemaReturn& r : op.schema.returns)
    for (const std::string& begin : {std::string(), op.schema.overload + "_"})
      if (!r.name.empty()) overloads.push_back(begin + std::string(r.name));
  std::vector<const OpEntry*> out;
  for (const std::string& overload : overloads) {
    const OpEntry* form = find_op(message("{}.{}.{}", op.schema.ns, op.schema.name, overload));
    if (form && form->out_form && form->functional == &op && !std::ranges::count(out, form))
      out.push_back(form);
  }
  return out;
}

class Rows {
 public:
  explicit Rows(const std::string& samples) : file_(samples) {}

  void check(const std::string& name) {
    const OpEntry& op = *find_op(name);
    if (!is_exact(op) || name.find(".empty") != name.npos || name.find("new_empty") != name.npos)
      return;
    std::vector<const OpEntry*> forms =
        op.mutated_args ? std::vector<const OpEntry*>() : out_forms(op);
    forms.push_back(&op);
    for (const OpEntry* form : forms) check(*form, op);
  }

  Checker checker;
  size_t n_forms = 0;

 private:
  // The first call that can be made.
  void check(const OpEntry& form, const OpEntry& op) {
    auto run = [&](const MakeCall& make) {
      bool is_made = checker.check(form, make);
      n_forms += is_made;
      return is_made;
    };
    const OpEntry& called = recorded_.contains(op.name) || !op.functional ? op : *op.functional;
    if (auto found = recorded_.find(called.name); found != recorded_.end()) {
      OpRecording recording = OpRecording::read(found->second);
      for (const RecordedCall& c : recording.cases())
        if (run([&] { return make_call(recording, c, called, ArgumentKind::real); })) return;
    }
    std::vector<std::string> texts = file_.entry_for(op.name).calls;
    if (texts.empty())
      if (auto text = made_up_call(op)) texts.push_back(*text);
    for (const std::string& text : texts)
      if (run([&] { return call_of(op, text); })) return;
  }

  SampleFile file_;
  std::map<std::string, std::string> recorded_ = recorded_ops();
};

int run_all(const std::string& samples, const std::vector<std::string>& names) {
  Rows rows(samples);
  for (const std::string& name : names.empty() ? all_op_names() : names) rows.check(name);
  const Checker& c = rows.checker;
  std::printf("%zu forms, %zu checks, %zu refused, %zu failed\n", rows.n_forms, c.n_checks,
              c.n_refused, c.n_failed);
  return c.n_failed != 0 || rows.n_forms == 0;
}

}  // namespace
}  // namespace tenon::testing

int main(int argc, char** argv) {
  try {
    tenon::require(argc > 1, "written_views_test SAMPLES [op ...]");
    return tenon::testing::run_all(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "written_views_test: %s\n", e.what());
    return 2;
  }
}
