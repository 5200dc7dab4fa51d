// Functional forms of ops that write their arguments and have none in the table.
#pragma once

#include "ops/op_table.h"

#include <string_view>

namespace tenon {

/// tenon::functional_<namespace>_<name>(<arguments>) -> (<results>, <written arguments>) of an op
/// that writes plain tensors: nothing is written; results that are a written argument itself are
/// left out, and the new content of each written argument, in their order, follows the others.
/// Random and other such tags are the op's. Made when it is first asked for; any thread. Throws
/// UserError unsupported for an op that writes lists of tensors, or gives other results than single
/// tensors.
///
/// `shares`: tenon::shared_functional_..., for calls where a tensor shares memory with a written one,
/// which values of a functional graph do not show. A last argument `places` says for each tensor that
/// is given, elements of lists too, which block of memory it lies in, -1 for none, and if it lies in
/// one, its storage offset and its strides. The op sees tensors that lie so.
const OpEntry& functional_copy_form(const OpEntry& op, bool shares = false);

/// The form of this name, or null where this names none.
const OpEntry* functional_copy_form(std::string_view name);

/// Whether calls of one are calls of the other: pow_.Scalar and pow.Scalar differ in more than the
/// write.
bool same_arguments(const Schema& a, const Schema& b);

}  // namespace tenon
