// Files of the source tree that are part of a program or library; tenon_embed() of CMake adds them.
#pragma once

#include <string_view>

namespace tenon {

struct EmbeddedFile {
  std::string_view path, text;
};

}  // namespace tenon
