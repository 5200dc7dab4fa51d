// Values whose memory is looked at by place: as_strided, kernels of other authors.
//
// Problem: a computed value lies in memory as suits those who read its elements, or in no memory at
// all. An op that looks at the storage itself expects the strides and the extent that the graph
// says, of the value that owns the storage: as_strided of a row of a matrix sees the matrix.
//
// Method: the owner of such a storage, found through views, gets memory of its own, laid out as
// promised, as soon as it is made; views of it are then indices into that memory, and the op gets
// its operand with the promised strides and offset within all of it.
#pragma once

#include "lowering.h"

namespace loopir {

/// Whether the op looks at its operands' storage by place: it says so, or it sees their bytes as
/// elements of another type, which only fit where the elements lie as promised.
bool looks_by_place(const tenon::plugin::graph& graph, const tenon::plugin::node& n);

/// By graph value: whether an op looks at its storage by place.
std::vector<bool> values_seen_by_place(const tenon::plugin::graph& graph);

/// Puts a result that was just made into memory of its own as the graph promises it. Its node made
/// the buffers from `first_new` on.
void lay_out_as_promised(Lowering& to, uint32_t value, Id first_new);

/// What an op that looks at memory by place gets for this operand.
View promised_view(Lowering& to, uint32_t value, const char* name);

/// Stores each element of a value into a buffer, at `first` and so many strides.
void store_by_strides(Lowering& to, const Tensor& part, Id buffer, Id first, const Ids& strides,
                      const std::string& name);

std::span<const Rule> storage_rules();

}  // namespace loopir
