// What mutants are made of besides what their file holds: numbers at the limits, dtypes and ops.
#pragma once

#include "harness/choices.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::fuzz {

/// One of a list, at random; the list is not empty.
template <class List>
auto& one_of(Choices& choices, List& list) {
  return list[choices.below(static_cast<uint32_t>(std::size(list)))];
}

/// Mostly what a size, a stride or a dimension may be, else where arithmetic ends.
int64_t some_number(Choices& choices);
double some_real(Choices& choices);
/// "aten.add.Tensor": any op of the table; half the time one that takes and gives a tensor.
std::string some_op(Choices& choices);
/// "f32"
std::string_view some_dtype(Choices& choices);
/// A text that nobody expects: empty, long, not UTF-8, with signs that steer.
std::string odd_text(Choices& choices);

}  // namespace tenon::fuzz
