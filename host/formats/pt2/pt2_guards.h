// Guards of .pt2 programs: conditions over the caller's arguments, such as
// `L['mask'].size()[1] == L['ids'].size()[1]`.
#pragma once

#include "formats/pt2/pt2_import.h"

#include <span>

namespace tenon::formats {

/// Throws UserError with the text of the first guard that is false, or has no value, for `leaves`.
/// Those that cannot be read are passed over: a warning told so when the archive was read.
void check_guards(const ImportedModel& model, std::span<const Tensor> leaves);

}  // namespace tenon::formats
