// The process's generator: a seed and the next free offset.
#include "core/random.h"

#include <mutex>

namespace tenon {

namespace {

struct Generator {
  std::mutex reserving;
  PhiloxState state{67280421310721, 0};
};
Generator& generator() {
  static auto* instance = new Generator;
  return *instance;
}

}  // namespace

PhiloxState reserve_random(uint64_t n_blocks) {
  Generator& g = generator();
  std::lock_guard lock(g.reserving);
  PhiloxState taken = g.state;
  g.state.offset += n_blocks;
  return taken;
}

void seed_random(uint64_t seed) {
  Generator& g = generator();
  std::lock_guard lock(g.reserving);
  g.state = {seed, 0};
}

uint64_t random_seed() { return random_state().seed; }

PhiloxState random_state() {
  Generator& g = generator();
  std::lock_guard lock(g.reserving);
  return g.state;
}

void set_random_state(PhiloxState state) {
  Generator& g = generator();
  std::lock_guard lock(g.reserving);
  g.state = state;
}

}  // namespace tenon
