// The backends that make code of the loop IR: what one of them gets wrong, all may.
#pragma once

#include <tenon/compile.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tenon {

/// Those of them that this build has.
inline std::vector<std::string> code_makers() {
  std::vector<std::string> out = list_backends({});
  std::erase_if(out,
                [](const std::string& b) { return b != "inductor" && b != "ts" && b != "nnc"; });
  return out;
}

}  // namespace tenon
