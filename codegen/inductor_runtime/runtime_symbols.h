// The functions that emitted code may call; who links the code defines them.
#pragma once

#include <span>

namespace inductor {

struct RuntimeSymbol {
  const char* name;
  void* address;
};

std::span<const RuntimeSymbol> runtime_symbols();

}  // namespace inductor
