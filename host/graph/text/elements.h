// Elements of constants in graph texts: numbers where they say everything, else bytes, else a
// digest.
#pragma once

#include "graph/text/document.h"

#include <string>

namespace tenon {

/// Fills content, elements and bytes of the statement from a real CPU tensor.
void describe_elements(const Tensor& tensor, size_t inline_elements, StatementDoc& statement);
/// The tensor with the elements of the statement; larger ones come from `options.constant`.
Tensor build_constant(const StatementDoc& statement, const TensorMeta& meta, int64_t offset,
                      const ParseOptions& options);
/// The elements in row-major order, as bytes.
std::string element_bytes(const Tensor& tensor);

}  // namespace tenon
