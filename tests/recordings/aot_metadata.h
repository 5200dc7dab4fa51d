// What lowering found out about the inputs and outputs of a graph, in the terms of PyTorch's
// metadata analysis, for comparing with it.
#pragma once

#include "aot/lower.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

enum class MutationType : uint8_t { not_mutated, in_graph, out_graph };
enum class OutputType : uint8_t {
  non_alias,
  alias_of_input,
  is_input,
  alias_of_intermediate_save_as_output,
  alias_of_intermediate,
  alias_of_intermediate_base_is_user_output,
  unsafe_view_alias,  ///< a view of memory that no other output shows
};

struct InputInfo {
  bool mutates_data = false, mutates_metadata = false, under_no_grad = false;
  bool requires_grad = false;
  MutationType mutation = MutationType::not_mutated;
};
struct OutputInfo {
  OutputType type = OutputType::non_alias;
  /// The input, the output or the intermediate base that it is a view of.
  std::optional<uint32_t> base;
  bool requires_grad = false;
};
struct AotMetadata {
  std::vector<InputInfo> inputs;    ///< tensors and numbers, in order
  std::vector<OutputInfo> outputs;  ///< those of the captured graph
  uint32_t n_intermediate_bases = 0;
};

class OutputClasses {
 public:
  explicit OutputClasses(const std::vector<OutputRecipe>& recipes) : recipes_(recipes) {}

  OutputInfo of(uint32_t i) {
    const OutputRecipe& r = recipes_[i];
    switch (r.kind) {
      case OutputRecipe::Kind::output:
        return of(r.index);
      case OutputRecipe::Kind::input:
        return {OutputType::is_input, r.index, r.requires_grad};
      case OutputRecipe::Kind::view_of_input:
        return {OutputType::alias_of_input, r.index, r.requires_grad};
      case OutputRecipe::Kind::view_of_result:
        return view(i);
      default:
        break;
    }
    bool hidden = r.kind == OutputRecipe::Kind::result && r.is_view && r.requires_grad;
    return {hidden ? OutputType::unsafe_view_alias : OutputType::non_alias, {}, r.requires_grad};
  }

  uint32_t n_bases() const { return static_cast<uint32_t>(bases_.size()); }

 private:
  bool shows_same(uint32_t i, uint32_t j) const {
    bool memory = recipes_[j].kind == OutputRecipe::Kind::result ||
                  recipes_[j].kind == OutputRecipe::Kind::view_of_result;
    return memory && recipes_[i].index == recipes_[j].index;
  }

  std::optional<uint32_t> output_that_is(uint32_t result) const {
    for (uint32_t j = 0; j < recipes_.size(); ++j)
      if (recipes_[j].kind == OutputRecipe::Kind::result && recipes_[j].index == result) return j;
    return std::nullopt;
  }

  // A view that needs no gradient is told apart only where it shows all of an output that does.
  OutputInfo view_without_grad(uint32_t i) const {
    std::optional<uint32_t> base = output_that_is(recipes_[i].index);
    if (base && recipes_[*base].requires_grad && recipes_[i].shows_all)
      return {OutputType::alias_of_intermediate_base_is_user_output, base, false};
    return {};
  }

  OutputInfo view(uint32_t i) {
    const OutputRecipe& r = recipes_[i];
    if (!r.requires_grad) return view_without_grad(i);
    uint32_t n_whole = 0;
    for (uint32_t j = 0; j < recipes_.size(); ++j)
      n_whole += shows_same(i, j) && !recipes_[j].is_part;
    if (n_whole <= 1 && !output_that_is(r.index)) return {OutputType::unsafe_view_alias, {}, true};
    if (auto base = output_that_is(r.index))
      return {OutputType::alias_of_intermediate_base_is_user_output, base, true};
    auto [at, is_new] = bases_.try_emplace(r.index, n_bases());
    return {is_new ? OutputType::alias_of_intermediate_save_as_output
                   : OutputType::alias_of_intermediate,
            at->second, true};
  }

  const std::vector<OutputRecipe>& recipes_;
  std::map<uint32_t, uint32_t> bases_;  // by result
};

// The inputs of the captured graph that input `position` of the functional one stands for.
inline std::vector<uint32_t> originals(const Lowered& lowered, uint32_t position) {
  if (position < lowered.shared.size()) return lowered.shared[position].members;
  return {lowered.kept[position - lowered.shared.size()]};
}

inline AotMetadata metadata_of(const Graph& captured, const Lowered& lowered) {
  AotMetadata out;
  for (ValueId id : captured.inputs())
    out.inputs.push_back({.requires_grad = captured.value(id).flags.requires_grad});
  for (const Lowered::WriteBack& w : lowered.write_backs)
    for (uint32_t i : originals(lowered, w.input))
      out.inputs[i] = {true, false, w.without_grad, out.inputs[i].requires_grad,
                       MutationType::out_graph};
  for (uint32_t position : lowered.mutated_inputs)
    for (uint32_t i : originals(lowered, position))
      out.inputs[i] = {true, false, false, out.inputs[i].requires_grad, MutationType::in_graph};
  for (const Lowered::Restride& r : lowered.restrides) {
    out.inputs[r.input].mutates_metadata = true;
    out.inputs[r.input].mutation = MutationType::out_graph;
  }
  OutputClasses classes(lowered.outputs);
  for (uint32_t i = 0; i < lowered.outputs.size(); ++i) out.outputs.push_back(classes.of(i));
  out.n_intermediate_bases = classes.n_bases();
  return out;
}

/// As PyTorch names them.
inline std::string to_text(OutputType type) {
  static constexpr std::array names = {"non_alias",
                                       "alias_of_input",
                                       "is_input",
                                       "alias_of_intermediate_save_as_output",
                                       "alias_of_intermediate",
                                       "alias_of_intermediate_base_is_user_output",
                                       "unsafe_view_alias"};
  return names[static_cast<size_t>(type)];
}

/// As PyTorch names them.
inline std::string to_text(MutationType type) {
  static constexpr std::array names = {"NOT_MUTATED", "MUTATED_IN_GRAPH", "MUTATED_OUT_GRAPH"};
  return names[static_cast<size_t>(type)];
}

}  // namespace tenon
