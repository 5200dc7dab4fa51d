// What an item of a schedule is and how much it does, for reports.
#pragma once

#include "loopir/kernel.h"

#include <string>

namespace loopir {

struct ItemFacts {
  std::string kind, name;
  int64_t bytes = 0;  // of the buffers that it reads and writes, once each
  int64_t flops = 0;  // of products, convolutions and attention; 0 for others
};
/// For the sizes seen while compiling.
ItemFacts facts_of(const Program& program, const Item& item, const Access& access);

}  // namespace loopir
