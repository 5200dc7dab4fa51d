// Compiling backwards when they are needed.
#include "aot/backward_code.h"

#include "autograd/collector.h"
#include "core/dispatch.h"
#include "core/threads/cancellation_off.h"
#include "report/events.h"

#include <tenon/ops/create.h>

#include <algorithm>

namespace tenon {

namespace {

bool covers(const std::vector<const Expr*>& known, const std::vector<const Expr*>& conditions) {
  return std::ranges::all_of(conditions, [&](const Expr* condition) {
    return std::ranges::find(known, condition) != known.end();
  });
}

}  // namespace

BackwardCode::BackwardCode(const Extracted& half, const Derivative& derivative, uint32_t n_saved,
                           CompileBackward compile)
    : half_(half),
      derivative_(derivative),
      n_saved_(n_saved),
      compile_(std::move(compile)),
      patches_(config::thread_patches()) {}

BackwardCode::Variant BackwardCode::compile(std::optional<MaskedBackward> part) {
  const CancellationOff until_compiled;
  config::InheritPatches as_then(patches_);
  BelowAutograd below;
  std::optional<ShapeEnvScope> shapes;  // a pass may start inside of a recording
  if (half_.graph->shape_env) shapes.emplace(*half_.graph->shape_env);
  if (!part) return {compile_(half_, n_saved_), std::nullopt};
  auto n_saved = std::ranges::count_if(part->inputs, [this](uint32_t i) { return i < n_saved_; });
  report::counter("aot.partial_backward_compiles").add();
  return {compile_(part->half, static_cast<uint32_t>(n_saved)), std::move(part)};
}

const BackwardCode::Variant& BackwardCode::whole() {
  if (const Variant* known = ready_.load(std::memory_order_acquire)) return *known;
  std::lock_guard lock(parts_mutex_);
  if (!whole_) whole_ = compile(std::nullopt);
  ready_.store(&*whole_, std::memory_order_release);
  return *whole_;
}

const BackwardCode::Variant& BackwardCode::for_tangents(const std::vector<bool>& undefined) {
  if (std::ranges::find(undefined, true) == undefined.end()) return whole();
  {
    std::lock_guard lock(parts_mutex_);
    if (auto known = by_tangents_.find(undefined); known != by_tangents_.end())
      return *known->second;
    if (by_tangents_.size() < most_parts) return add_part(undefined);
  }
  return whole();
}

// What the whole half takes for granted about sizes became a guard of the callable before its first
// run; nothing more can be asked for now.
const BackwardCode::Variant& BackwardCode::add_part(const std::vector<bool>& undefined) {
  std::vector<bool> inputs(n_saved_);
  inputs.insert(inputs.end(), undefined.begin(), undefined.end());
  std::optional<Variant> made;
  if (auto part = without_tangents(*half_.graph, inputs)) made = compile(std::move(part));
  bool asks = made && !made->code->guards.empty();
  if ((asks || !made) && !whole_) whole_ = compile(std::nullopt);
  if (asks && !covers(whole_->code->guards, made->code->guards)) made.reset();
  const Variant* chosen =
      made ? parts_.emplace_back(std::make_unique<Variant>(std::move(*made))).get() : &*whole_;
  return *by_tangents_.emplace(undefined, chosen).first->second;
}

std::vector<std::shared_ptr<Artifact>> BackwardCode::compiled() {
  std::lock_guard lock(parts_mutex_);
  std::vector<std::shared_ptr<Artifact>> out;
  if (whole_) out.push_back(whole_->code);
  for (const auto& part : parts_) out.push_back(part->code);
  return out;
}

std::vector<Tensor> BackwardCode::gradients(const Variant& half, const std::vector<bool>& undefined,
                                            std::vector<Tensor> made, const autograd::Node& of) {
  if (half.part) {
    std::vector<Tensor> all(half_.graph->outputs().size());
    for (size_t i = 0; i < made.size(); ++i) all[half.part->outputs[i]] = std::move(made[i]);
    made = std::move(all);
  }
  if (std::ranges::find(undefined, true) == undefined.end()) return made;
  tangents_once_.run(
      [&] { tangents_ = tangents_of_outputs(*half_.graph, n_saved_, undefined.size()); });
  for (size_t g = 0; g < made.size(); ++g) {
    bool is_reached = tangents_[g].empty();
    for (size_t t = 0; t < tangents_[g].size(); ++t)
      is_reached = is_reached || (tangents_[g][t] && !undefined[t]);
    if (!is_reached) made[g] = Tensor();
  }
  add_zeros(undefined, of, made);
  return made;
}

void BackwardCode::add_zeros(const std::vector<bool>& undefined, const autograd::Node& of,
                             std::vector<Tensor>& gradients) const {
  for (size_t t = 0; t < undefined.size(); ++t)
    for (uint32_t g : derivative_.reached[t]) {
      const autograd::Edge& edge = of.next[g];
      if (undefined[t] || gradients[g].defined() || !edge) continue;
      const autograd::GradMeta& meta = autograd::input_meta(*edge.node, edge.input);
      gradients[g] = zeros(list_of(meta.sizes), meta.dtype, {}, meta.device);
    }
}

}  // namespace tenon
