// Counts the calls of malloc and its kin. What an executable defines comes before what libraries
// define, so operator new and plugins take these, too.
#include "plugins/inductor/steady_state/count_allocations.h"

#include "interposed_malloc.h"

#include <atomic>

namespace {

std::atomic<int64_t> count{0};

}  // namespace

bool refuse_allocation() {
  ++count;
  return false;
}

int64_t allocations() { return count; }
