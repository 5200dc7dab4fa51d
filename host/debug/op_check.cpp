// Recorded calls as graphs of one node, compiled, run and compared.
#include "debug/op_check.h"

#include "compile/compile_graph.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "debug/op_compare.h"
#include "graph/record.h"

#include <chrono>

namespace tenon {

namespace {

/// The graph of one call, and the tensors to run it on.
struct OneOpGraph {
  std::shared_ptr<Graph> graph;
  std::vector<Tensor> inputs;
};

// A tensor of the call becomes an input; numbers that were given for tensors stay constants.
void make_input(Tensor& t, GraphRecorder& recorder, std::vector<Tensor>& inputs) {
  if (!t.defined() || is_wrapped_number(t)) return;
  inputs.push_back(t);
  t = recorder.add_input(meta_of(t));
}

OneOpGraph record_call(const OpRecording& recording, const RecordedCall& recorded,
                       const OpEntry& op) {
  CallValues call = make_call(recording, recorded, op, ArgumentKind::real);
  GraphRecorder recorder(ShapeEnv::make());
  OneOpGraph out;
  for (Tensor& t : call.tensors) make_input(t, recorder, out.inputs);
  for (std::vector<Tensor>& list : call.tensor_lists)
    for (Tensor& t : list) make_input(t, recorder, out.inputs);
  OpResults results(op.n_returns);
  {
    RecordScope scope(recorder);
    run_op(op, call, results);
  }
  std::vector<Tensor> outputs;
  for (const Value& v : flattened(results)) {
    require(!v.is_number(), ErrorCode::unsupported,
            "{} gives a number, which no compiled graph returns", op.name);
    outputs.push_back(tensor_in(v));
  }
  out.graph = recorder.finish(outputs);
  return out;
}

std::vector<Tensor> run_compiled(OneOpGraph& call, const CheckSettings& settings,
                                 CaseResult& result) {
  auto begin = std::chrono::steady_clock::now();
  CompileGraphOptions options;
  options.backend = result.backend;
  options.mode = settings.mode;
  options.options_toml = settings.options_toml;
  std::shared_ptr<Artifact> artifact = compile_graph(call.graph, options);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  result.compile_ms = took.count();
  result.compiles = 1;
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : call.inputs) heads.push_back(t.head());
  std::vector<int64_t> symbols(call.graph->symbols.size());
  std::vector<Tensor> outputs(call.graph->outputs().size());
  artifact->call(heads, symbols, outputs);
  result.stats = artifact->describe(TN_DESC_STATS_JSON);
  return outputs;
}

// What the backend's results are compared with; undefined where nothing was recorded.
std::vector<Tensor> expected_tensors(const OpRecording& recording, const RecordedCall& recorded,
                                     const OpEntry& op, Against against) {
  std::vector<Tensor> out;
  if (against == Against::eager) {
    CallValues call = make_call(recording, recorded, op, ArgumentKind::real);
    OpResults results(op.n_returns);
    run_op(op, call, results);
    for (const Value& v : flattened(results)) out.push_back(tensor_in(v));
    return out;
  }
  for (const formats::JsonView& v : expected_of(recorded))
    out.push_back(is_recorded_tensor(v) ? recording.tensor(v) : Tensor());
  return out;
}

// What is compiled as its parts rounds between them as a model does: to two units of the largest
// part, not of the result.
bool is_judged_as_model(const OpEntry& op, Dtype dtype) {
  return !(op.tags & TN_TAG_CORE) && (dtype == Dtype::bf16 || dtype == Dtype::f16);
}

CheckedTensor compare_output(size_t index, const Tensor& found, const Tensor& expected,
                             const OpEntry& op) {
  CheckedTensor checked;
  checked.name = message("out.{}", index);
  checked.result = compare_tensors(found, expected);
  if (!checked.result.problem.empty()) return checked;
  OpDifference difference = compare_tensor(found, expected, op, true);
  checked.strides = difference.strides;
  if (checked.result.ok && is_judged_as_model(op, expected.dtype())) return checked;
  checked.result.ok = difference.values.empty();
  checked.result.problem = difference.values;
  return checked;
}

bool may_be_rounding(const CheckedTensor& checked, const Tensor& found, const Tensor& expected) {
  return !checked.result.ok && is_floating(expected.dtype()) && found.dtype() == expected.dtype() &&
         symbolic_text(found.sizes()) == symbolic_text(expected.sizes());
}

// The call anew, since the first one may have written its inputs; empty where double precision
// has no such op.
std::vector<Tensor> results_in_double(const OpRecording& recording, const RecordedCall& recorded,
                                      const OpEntry& op) {
  try {
    OneOpGraph call = record_call(recording, recorded, op);
    return run_graph_in_double(*call.graph, call.inputs, {}).outputs;
  } catch (const Error&) {
    return {};
  }
}

// What is right must roughly agree with the run in double precision: random numbers do not.
void judge_by_double(const Tensor& found, const Tensor& expected, const Tensor& exact,
                     CheckedTensor& checked) {
  if (!exact.defined() || !compare_tensors(expected, exact, {false, true, 10}).ok) return;
  Rounding rounding = rounding_of(found, expected, exact);
  checked.double_error = rounding.found;
  checked.allowed_error = 2 * rounding.expected;
  checked.result.ok = rounding.explains();
  if (checked.result.ok) checked.result.problem.clear();
}

void check_call(const OpRecording& recording, const RecordedCall& recorded, const OpEntry& op,
                const CheckSettings& settings, CaseResult& result) {
  OneOpGraph call = record_call(recording, recorded, op);
  std::vector<Tensor> expected = expected_tensors(recording, recorded, op, settings.against);
  std::vector<Tensor> found = run_compiled(call, settings, result);
  require(found.size() == expected.size(), "expected {} results, found {}", expected.size(),
          found.size());
  result.ok = true;
  std::vector<Tensor> exact;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!expected[i].defined()) continue;
    CheckedTensor checked = compare_output(i, found[i], expected[i], op);
    if (may_be_rounding(checked, found[i], expected[i])) {
      if (exact.empty()) exact = results_in_double(recording, recorded, op);
      judge_by_double(found[i], expected[i], exact.empty() ? Tensor() : exact[i], checked);
    }
    result.ok = result.ok && checked.result.ok;
    result.tensors.push_back(std::move(checked));
  }
}

}  // namespace

std::vector<CaseResult> check_op_file(const std::string& file, const std::string& backend,
                                      const CheckSettings& settings) {
  std::string stem = file.substr(0, file.rfind('.'));
  std::vector<CaseResult> results(1);
  results[0].name = stem;
  results[0].backend = backend;
  try {
    OpRecording recording = OpRecording::read(file);
    const OpEntry* op = find_op(recording.op());
    require(op, ErrorCode::unsupported, "there is no op {} to run its {} cases with",
            recording.op(), recording.cases().size());
    results.resize(recording.cases().size(), results[0]);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].name = message("{}#{}", stem, i);
      try {
        check_call(recording, recording.cases()[i], *op, settings, results[i]);
      } catch (const std::exception& error) {
        note_error(results[i], error);
      }
    }
  } catch (const std::exception& error) {
    note_error(results[0], error);
  }
  return results;
}

}  // namespace tenon
