// What the processor of this process can do, asked of the processor itself.
#pragma once

#include <string>

namespace inductor {

/// Those of the features ("+avx2,+fma", LLVM's names) that change code and that this processor, or
/// its system, does not offer: "avx512f, avx512vl", or nothing. Names that no code depends on are
/// passed over.
std::string missing_features(const std::string& features);

}  // namespace inductor
