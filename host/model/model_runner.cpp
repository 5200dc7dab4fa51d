// Running .pt2 models: versions of compiled code, and effects.
#include "model/model_runner.h"

#include "compile/compile_graph.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_eval.h"
#include "core/sym/sym_text.h"
#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_import_parts.h"
#include "model/apply_plan.h"
#include "model/input_layout.h"
#include "model/model_tree.h"
#include "model/run_in_body.h"
#include "runtime/overrides.h"
#include "saved/saved_artifact.h"

#include <tenon/autograd.h>
#include <tenon/disable.h>
#include <tenon/ops/copy.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace tenon {

using formats::BoundCall;
using formats::ImportedModel;
using formats::ModelInput;
using formats::ModelOutput;
using formats::ModelOutputKind;

std::optional<SymValue> value_in_call(const Expr* expr, const Graph& graph,
                                      std::span<const int64_t> symbols) {
  return evaluate(expr, [&](const Expr* symbol) -> std::optional<SymValue> {
    for (size_t s = 0; s < graph.symbols.size(); ++s)
      if (graph.symbols[s].symbol == symbol &&
          graph.value(graph.symbols[s].value).source == ValueSource::input)
        return SymValue{symbol->kind, symbols[s]};
    return std::nullopt;
  });
}

bool holds(const Expr* condition, const Graph& graph, std::span<const int64_t> symbols) {
  auto value = value_in_call(condition, graph, symbols);
  return !value || value->integer() != 0;
}

namespace {

// Whether the symbols are what the graph was imported for: 0 and 1 often have graphs of their own.
bool is_for(const Graph& graph, std::span<const int64_t> symbols) {
  return std::ranges::all_of(graph.shape_env->guard_conditions(), [&](const RecordedGuard& guard) {
    return holds(guard.condition, graph, symbols);
  });
}

using report::VersionFacts;

bool writes_weights(const ImportedModel& model) {
  std::vector<bool> written = formats::written_inputs(*model.graph);
  for (const ModelOutput& output : model.outputs)
    if (output.kind == ModelOutputKind::write_back) written[output.input] = true;
  for (size_t i = 0; i < model.inputs.size(); ++i)
    if (written[i] && model.inputs[i].kind != formats::ModelInputKind::user) return true;
  return false;
}

const Expr* condition_of(const std::string& text, const Graph& graph, const std::string& file) {
  const Expr* condition = parse_expr(text, [&](std::string_view name) -> const Expr* {
    return graph.shape_env ? graph.shape_env->find_symbol(name) : nullptr;
  });
  require(condition->kind == ExprKind::boolean, ErrorCode::bad_file, "{}: {} is not a condition",
          file, text);
  return condition;
}

// Files of compiled code go where the backend that made it is not installed.
void check_compiler(const std::string& backend, const std::string& file) {
  std::vector<BackendInfo> known = all_backends();
  bool is_there = std::any_of(known.begin(), known.end(),
                              [&](const BackendInfo& b) { return b.name == backend; });
  if (!is_there)
    throw BackendError(ErrorCode::plugin, TN_NOT_FOUND,
                       message("{}: the code in the file does not serve these sizes, and backend "
                               "{}, which made it, is not installed to compile for them; call the "
                               "model with such sizes before it is saved",
                               file, backend));
}

// With the sizes of the export the program is fine.
[[noreturn]] void fail_for_sizes(const UserError& error, const formats::Pt2SymbolValues& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes)
    text += message("{}{} = {}", text.empty() ? "" : ", ", symbol_text(symbol), size);
  fail(ErrorCode::invalid_argument, "{}; the model was called with {}", error.what(), text);
}

std::vector<bool> weights_of(const ImportedModel& model) {
  std::vector<bool> out;
  for (const ModelInput& input : model.inputs)
    out.push_back(input.kind != ModelInputKind::user && input.kind != ModelInputKind::symbol);
  return out;
}

formats::ImportOptions import_options(const RunnerOptions& options) {
  return {.hints = {},
          .random_weights = options.random_weights,
          .own_weights = options.training,
          .device = options.device};
}

}  // namespace

// What the plan writes after the run must not be kept as it is for the backward.
static void mark_written(const ImportedModel& model, Graph& graph) {
  for (const ModelOutput& output : model.outputs)
    if (output.kind == ModelOutputKind::write_back)
      graph.value(graph.inputs()[output.input]).flags.mutated = true;
}

void want_gradients(const ImportedModel& model) {
  mark_written(model, *model.graph);
  std::span<const ValueId> inputs = model.graph->inputs();
  for (size_t i = 0; i < model.inputs.size(); ++i)
    if (model.graph->value(inputs[i]).flags.requires_grad && model.inputs[i].tensor.defined())
      model.inputs[i].tensor.requires_grad_();
}

NamedTensorMap gradients_of(const ImportedModel& model, std::vector<Tensor>& outputs) {
  require(!outputs.empty() && outputs[0].defined(),
          "the model has no first result to differentiate");
  for (const ModelInput& input : model.inputs)
    if (input.tensor.defined()) input.tensor.set_grad({});
  outputs[0].backward();
  NamedTensorMap gradients;
  for (const ModelInput& input : model.inputs)
    if (input.tensor.defined() && input.tensor.grad().defined())
      for (const std::string& name : input.names) gradients[name] = input.tensor.grad();
  for (Tensor& t : outputs)
    if (t.defined()) t = t.detach();
  return gradients;
}

void sgd_step(const ImportedModel& model, double rate) {
  NoGradGuard update;
  for (const ModelInput& input : model.inputs)
    if (input.tensor.defined() && input.tensor.grad().defined())
      input.tensor.add_(input.tensor.grad(), -rate);
}

ModelRunner::ModelRunner(std::shared_ptr<const formats::Pt2Program> program, RunnerOptions options)
    : program_(std::move(program)),
      options_(std::move(options)),
      model_(import_pt2(*program_, import_options(options_))),
      memory_written_(*model_.graph, weights_of(model_)),
      writes_weights_(writes_weights(model_)),
      unit_(report::find_unit(report::UnitKind::model,
                              std::filesystem::path(model_.file).filename().string())),
      number_(next_compile_number()) {
  if (options_.training) want_gradients(model_);
}

std::vector<Tensor> ModelRunner::run_with_gradients(std::span<const Tensor> leaves,
                                                    NamedTensorMap& gradients) {
  ensure(options_.training, "a runner without training was asked for gradients");
  std::vector<Tensor> outputs = run(leaves);
  gradients = gradients_of(model_, outputs);
  return outputs;
}

void ModelRunner::reset_weights() {
  ImportedModel fresh = import_pt2(*program_, import_options(options_));
  for (size_t i = 0; i < model_.inputs.size(); ++i)
    model_.inputs[i].tensor = std::move(fresh.inputs[i].tensor);
  if (options_.training) want_gradients(model_);
}

// Why it was compiled, and what it takes for granted.
void ModelRunner::tell_unit(const Version& version, const BoundCall& call) const {
  if (!unit_) return;
  const ShapeEnv& env = *version.graph->shape_env;
  VersionFacts facts{.id = message("{}/{}", number_, versions_.size()),
                     .n_nodes = version.graph->nodes().size()};
  for (const Expr* c : version.conditions) facts.guards += env.text(c) + "\n";
  unit_->note_version(std::move(facts));
  unit_->add({.compiles = 1});
  std::string why;
  for (size_t i = 0; i < versions_.size(); ++i) {
    const char* separator = why.empty() ? "" : "; ";
    if (versions_[i]->kind.needs != version.kind.needs)
      why += message("{}{}/{}: the same arguments need gradients", separator, number_, i);
    else if (!(versions_[i]->kind == version.kind))
      why += message("{}{}/{}: the arguments share memory as they did", separator, number_, i);
    for (const Expr* c : versions_[i]->conditions)
      if (!holds(c, *versions_[i]->graph, call.symbols)) {
        why += message("{}{}/{}: {}", why.empty() ? "" : "; ", number_, i,
                       versions_[i]->graph->shape_env->text(c));
        break;
      }
  }
  if (!why.empty()) unit_->note_recompile("does not hold: " + why);
}

std::shared_ptr<Artifact> ModelRunner::compile_version(const Version& version) {
  if (version.kind.memory.as_given) return interpreter_artifact(version.graph);
  config::OptionScope overrides(flag_override(number_));
  CompileGraphOptions options;
  options.backend = backend_override(number_).value_or(options_.backend);
  options.mode = options_.mode;
  options.options_toml = options_.options_toml;
  options.compile_id = message("{}/{}", number_, versions_.size());
  options.dynamic = !version.graph->symbols.empty();
  try {
    return compile_graph(version.graph, options);
  } catch (const UserError& error) {
    // Not all overlaps can be made functional.
    bool overlap = !version.kind.memory.overlaps.empty();
    if (!overlap || error.code() != ErrorCode::unsupported) throw;
    return interpreter_artifact(version.graph);
  }
}

std::shared_ptr<const ModelRunner::Version> ModelRunner::make_version(const BoundCall& call,
                                                                      const Kind& kind) {
  report::TimeScope time(unit_, report::Work::compile);
  auto begin = std::chrono::steady_clock::now();
  auto version = std::make_shared<Version>();
  // The first version keeps the archive's example sizes, if they make no difference.
  bool as_exported =
      versions_.empty() && kind.memory.overlaps.empty() && is_for(*model_.graph, call.symbols);
  if (!as_exported) version->hints = call.values;
  version->kind = kind;
  try {
    version->graph = graph_for(version->hints, kind);
  } catch (const UserError& error) {
    if (version->hints.empty() || error.code() != ErrorCode::bad_file) throw;
    fail_for_sizes(error, version->hints);
  }
  version->artifact = compile_version(*version);
  for (const RecordedGuard& guard : version->graph->shape_env->guard_conditions())
    version->conditions.push_back(guard.condition);
  for (const Expr* guard : version->artifact->guards) version->conditions.push_back(guard);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  compile_ms_ += took.count();
  tell_unit(*version, call);
  versions_.push_back(version);
  return version;
}

// The parameters have theirs in the graph.
std::vector<bool> ModelRunner::needs_of(const BoundCall& call) const {
  if (!options_.training || !thread_modes.grad_enabled) return {};
  std::vector<bool> needs(call.inputs.size());
  for (size_t i = 0; i < needs.size(); ++i)
    needs[i] = model_.inputs[i].kind == ModelInputKind::user && call.inputs[i] &&
               share(call.inputs[i]).requires_grad();
  return std::ranges::find(needs, true) == needs.end() ? std::vector<bool>() : needs;
}

// Where an input lies otherwise than the graph promises, no code takes its memory.
CallMemory ModelRunner::memory_of(const BoundCall& call, std::span<const Overlap> overlaps) const {
  if (overlaps.empty()) return {};
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (is_shared(overlaps, i) &&
        !lies_as_promised(*model_.graph, i, *call.inputs[i], call.symbols))
      return {{}, true};
  return {{overlaps.begin(), overlaps.end()}, false};
}

std::shared_ptr<const ModelRunner::Version> ModelRunner::find_version(const BoundCall& call,
                                                                      const Kind& kind) const {
  auto fits = [&](const std::shared_ptr<const Version>& v) {
    return v->kind == kind && std::ranges::all_of(v->conditions, [&](const Expr* c) {
             return holds(c, *v->graph, call.symbols);
           });
  };
  auto found = std::ranges::find_if(versions_, fits);
  return found == versions_.end() ? nullptr : *found;
}

// Windows that slide over one memory overlap in ever new ways.
bool ModelRunner::may_compile_for(std::span<const Overlap> overlaps) const {
  auto n = std::ranges::count_if(versions_,
                                 [](const auto& v) { return !v->kind.memory.overlaps.empty(); });
  return n < config::flags().dynamo.recompile_limit && can_tell_overlaps(*model_.graph, overlaps);
}

std::shared_ptr<const ModelRunner::Version> ModelRunner::version_for(
    const BoundCall& call, std::span<const Overlap> overlaps) {
  Kind kind{needs_of(call), memory_of(call, overlaps)};
  BelowAutocast types_as_exported;
  EnableGradGuard as_wanted(options_.training);
  std::lock_guard lock(compiling_);
  if (auto known = find_version(call, kind)) return known;
  if (!overlaps.empty() && !may_compile_for(overlaps)) {
    kind.memory = {{}, true};
    if (auto known = find_version(call, kind)) return known;
  }
  if (n_loaded_ > 0 && !kind.memory.as_given) check_compiler(options_.backend, model_.file);
  make_version(call, kind);
  auto made = find_version(call, kind);
  return made ? made : make_version(call, kind);
}

// ---- code in files

ModelRunner::ModelRunner(SavedModel saved)
    : ModelRunner(saved.program, {.backend = saved.backend,
                                  .mode = saved.mode,
                                  .options_toml = saved.options_toml,
                                  .device = saved.device}) {
  for (const SavedVersion& s : saved.versions) {
    auto version = std::make_shared<Version>();
    version->hints = s.hints;
    version->kind.memory = s.memory;
    version->graph = graph_for(s.hints, {});
    version->artifact = load_artifact(s.artifact, version->graph->inputs().size(),
                                      version->graph->outputs().size(), model_.file);
    for (const std::string& text : s.conditions)
      version->conditions.push_back(condition_of(text, *version->graph, model_.file));
    versions_.push_back(std::move(version));
  }
  n_loaded_ = versions_.size();
}

// Without hints: that of the archive's example sizes.
std::shared_ptr<Graph> ModelRunner::graph_for(const formats::Pt2SymbolValues& hints,
                                              const Kind& kind) const {
  const auto& [needs, memory] = kind;
  if (hints.empty() && needs.empty() && memory.overlaps.empty()) return model_.graph;
  auto graph =
      import_pt2(*program_, {.hints = hints, .with_weights = false, .device = options_.device})
          .graph;
  if (options_.training) mark_written(model_, *graph);
  for (size_t i = 0; i < needs.size(); ++i)
    graph->value(graph->inputs()[i]).flags.requires_grad |= needs[i];
  tell_overlaps(*graph, memory.overlaps);
  return graph;
}

void ModelRunner::save(const std::string& path) {
  std::unique_lock turn(writing_, std::defer_lock);
  if (writes_weights_) turn.lock();
  std::lock_guard lock(compiling_);
  require(!versions_.empty(), "{}: nothing was compiled yet; call the model or prepare() it first",
          model_.file);
  require(!options_.training && !options_.random_weights, ErrorCode::unsupported,
          "{}: a model that was loaded for training, or with random weights, is not saved with its "
          "code; save its weights with save_state()",
          model_.file);
  SavedModel saved{program_, options_.backend, options_.mode, options_.options_toml,
                   {},       options_.device};
  for (const auto& version : versions_) {
    SavedVersion& out = saved.versions.emplace_back();
    out.hints = version->hints;
    out.memory = version->kind.memory;
    out.artifact = version->artifact->save();
    for (const Expr* c : version->conditions)
      out.conditions.push_back(version->graph->shape_env->text(c));
  }
  write_saved_model(path, saved, live_weights());
}

std::vector<std::pair<std::string, Tensor>> ModelRunner::live_weights() const {
  std::vector<std::pair<std::string, Tensor>> out;
  for (size_t i = 0; i < model_.inputs.size(); ++i)
    for (const auto* weights : {&program_->weights, &program_->constants})
      for (const formats::Pt2Weight& w : *weights) {
        const std::vector<std::string>& names = model_.inputs[i].names;
        bool is_it = std::find(names.begin(), names.end(), w.name) != names.end();
        if (is_it && model_.inputs[i].tensor.defined())
          out.emplace_back(w.record, model_.inputs[i].tensor);
      }
  return out;
}

void ModelRunner::compile(std::span<const Tensor> leaves) {
  BoundCall call = bind_call(model_, leaves);
  version_for(call, memory_written_.overlaps(call.inputs));
}

// What was recorded runs later, so nothing here waits for its turn to write weights.
std::vector<Tensor> ModelRunner::run_in_body(std::span<const Tensor> leaves,
                                             NamedTensorMap* gradients) {
  EnableGradGuard as_wanted(options_.training && thread_modes.grad_enabled);
  BelowAutocast types_as_exported;
  formats::BoundCallInBody call = bind_call_in_body(model_, leaves);
  std::vector<Tensor> results = tenon::run_in_body(*model_.graph, call);
  NamedTensorMap found;
  std::vector<Tensor> outputs = apply_plan(model_, {call.inputs, {}, {}}, results, found);
  if (gradients) *gradients = std::move(found);
  return outputs;
}

// As a function that is disabled: the body breaks here.
std::vector<Tensor> ModelRunner::run_outside_body(std::span<const Tensor> leaves,
                                                  NamedTensorMap* gradients) {
  std::vector<Tensor> real(leaves.begin(), leaves.end());
  detail::DisabledScope scope{
      detail::enter_disabled(real, message("{} has control flow", model_.file), {})};
  require(scope.token, ErrorCode::unsupported,
          "{}: has control flow with symbolic sizes, which cannot be recorded here", model_.file);
  return run(real, gradients);
}

std::vector<Tensor> ModelRunner::run(std::span<const Tensor> leaves, NamedTensorMap* gradients) {
  if (detail::is_recording())
    return can_run_in_body(*model_.graph) ? run_in_body(leaves, gradients)
                                          : run_outside_body(leaves, gradients);
  report::TimeScope time(unit_, report::Work::call);
  EnableGradGuard as_wanted(options_.training && thread_modes.grad_enabled);
  std::unique_lock turn(writing_, std::defer_lock);
  if (writes_weights_) turn.lock();
  BoundCall call = bind_call(model_, leaves);
  std::vector<Overlap> overlaps = memory_written_.overlaps(call.inputs);
  auto version = version_for(call, overlaps);
  std::vector<Tensor> results(version->graph->outputs().size());
  BelowAutocast types_as_exported;
  LaidOutInputs inputs(*version->graph, call.inputs, call.symbols, overlaps);
  version->artifact->call(inputs.heads(), call.symbols, results);
  inputs.write_back();
  inputs.show_given(results);
  NamedTensorMap found;
  std::vector<Tensor> outputs = apply_plan(model_, call, results, found);
  if (gradients) *gradients = std::move(found);
  return outputs;
}

size_t ModelRunner::compiles() const {
  std::lock_guard lock(compiling_);
  return versions_.size() - n_loaded_;
}

double ModelRunner::compile_ms() const {
  std::lock_guard lock(compiling_);
  return compile_ms_;
}

Tensor ModelRunner::weight(const std::string& name) const {
  for (const ModelInput& input : model_.inputs)
    if (std::find(input.names.begin(), input.names.end(), name) != input.names.end())
      return input.tensor;
  return Tensor();
}

std::string ModelRunner::describe(int32_t what) const {
  std::lock_guard lock(compiling_);
  return versions_.empty() ? "" : versions_.back()->artifact->describe(what);
}

}  // namespace tenon
