// One call of an imported model: the caller's leaves are checked and become graph inputs.
#pragma once

#include "formats/pt2/pt2_import.h"

#include <span>
#include <vector>

namespace tenon::formats {

/// What Artifact::call takes. The heads are borrowed from the leaves and the model.
struct BoundCall {
  std::vector<detail::TensorHead*> inputs;
  std::vector<int64_t> symbols;  ///< in the order of graph->symbols; 0 where only the run knows
  Pt2SymbolValues values;
};

/// The same in a body that is recorded: the leaves may be fakes with symbolic sizes, and what stands
/// for the symbols is over those. Node by node, in the order of graph->symbols.
struct BoundCallInBody {
  std::vector<detail::TensorHead*> inputs;
  std::vector<SymInt> symbols;
};

/// The numbers that the leaves give to the symbols, without any check.
Pt2SymbolValues read_symbols(const ImportedModel& model, std::span<const Tensor> leaves);

/// Checks number, dtypes, ranks, sizes, ranges, constants and guards, and binds. `leaves` has one
/// entry per leaf of the model; numbers are 0-dim tensors, constants 0-dim tensors or undefined.
/// Throws UserError that names the input and the dimension.
BoundCall bind_call(const ImportedModel& model, std::span<const Tensor> leaves);

/// The same; what is checked of symbolic sizes becomes guards of the recording.
BoundCallInBody bind_call_in_body(const ImportedModel& model, std::span<const Tensor> leaves);

/// The same for models in other precision: floating inputs may have another dtype.
BoundCall bind_call_any_precision(const ImportedModel& model, std::span<const Tensor> leaves);

/// "x: f32[s77, 64], y: i64[s77]", for messages.
std::string describe_leaves(const ImportedModel& model);

/// Sizes of a leaf with the values of symbols, for making inputs.
std::vector<int64_t> sizes_of(const ModelLeaf& leaf, const Pt2SymbolValues& values);

}  // namespace tenon::formats
