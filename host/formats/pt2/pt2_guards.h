// Guards of .pt2 programs: conditions over the caller's arguments, such as
// `L['mask'].size()[1] == L['ids'].size()[1]`.
#pragma once

#include "formats/pt2/pt2_import.h"

#include <span>

namespace tenon::formats {

/// Throws UserError with the text of the first guard that is false for `leaves`. Guards that cannot
/// be read or evaluated are passed over: the symbols of the sizes tell the same.
void check_guards(const ImportedModel& model, std::span<const Tensor> leaves);

}  // namespace tenon::formats
