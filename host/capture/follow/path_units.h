// Units, see core/op_unit.h, among the steps of a path.
#pragma once

#include "capture/follow/path.h"

#include <optional>
#include <vector>

namespace tenon {

/// What the steps of a unit may be taken for; nothing where they read anything but its tensors.
/// `part`: the last one, whose steps are there.
std::optional<Path::Unit> unit_of(const Path& path, const Path::Part& part,
                                  const RecordedUnit& recorded);

}  // namespace tenon
