// Calls of ops written as text, or made up from their schemas.
//
//   aten.addbmm_.default f32[3,4] f32[2,3,5] f32[2,5,4] alpha=2
//
// Arguments follow in the order of the schema, parted by spaces, then by name; those left out have
// their defaults. A tensor is f32[3,4] with normal numbers (integers from 0 to 9), f32[3,4]~0.1:2
// with numbers between two, f32[3,3]~spd symmetric and positive definite, f32[3,3]~tri its lower
// triangle, or i64[3]{0,2,1} with these elements. Lists stand in brackets: [1,2], [f32[3],f32[4]].
#pragma once

#include "debug/op_recording.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::testing {

/// The arguments that `text` says, the op's name left out; equal texts give equal numbers. Throws
/// UserError for a text that does not fit the schema.
CallValues call_of(const OpEntry& op, std::string_view text);

/// The tensors of the call become fakes; numbers given for tensors stay.
void make_fakes(CallValues& call, ArgumentKind kind);

/// The text of the first call that the op takes of those made up from its schema: every tensor has
/// the same sizes, every number the same value.
std::optional<std::string> made_up_call(const OpEntry& op);

}  // namespace tenon::testing
