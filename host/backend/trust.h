// Whether a plugin file may be loaded at all, judged by who could have written it.
#pragma once

#include <cstdint>
#include <string>

#include "backend/diagnose.h"

namespace tenon {

/// `off` asks nothing; the other two refuse what anybody could have written.
enum class TrustMode : uint8_t { strict, owner, off };

/// P14 when the file, its directory, or the same of what a link leads to, is writable by others or
/// owned by someone other than root and the effective user, or is no regular file. Any thread.
Diagnosis check_trust(const std::string& path, TrustMode mode);

}  // namespace tenon
