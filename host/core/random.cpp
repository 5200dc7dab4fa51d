// The process's generator: a seed and the next free offset.
#include "core/random.h"

#include "core/dispatch.h"

#include <mutex>
#include <utility>

namespace tenon {

namespace {

struct Generator {
  std::mutex reserving;
  RngState state{67280421310721, 0};
};
Generator& generator() {
  static auto* instance = new Generator;
  return *instance;
}

}  // namespace

static thread_local constinit RngState* drawn_from = nullptr;

DrawFrom::DrawFrom(RngState& state) : before_(std::exchange(drawn_from, &state)) {}
DrawFrom::~DrawFrom() { drawn_from = before_; }

RngState reserve_random(uint64_t n_blocks) {
  if (drawn_from) {
    RngState taken = *drawn_from;
    drawn_from->offset += n_blocks;
    return taken;
  }
  Generator& g = generator();
  std::lock_guard lock(g.reserving);
  RngState taken = g.state;
  g.state.offset += n_blocks;
  return taken;
}

void (*before_generator_slot)(const char* what, std::source_location where) = nullptr;

static void finish_drawing(const char* what, std::source_location where) {
  if (thread_modes.tracer && before_generator_slot) before_generator_slot(what, where);
}

void manual_seed(uint64_t seed, std::source_location where) {
  finish_drawing("the random seed is set", where);
  restore_rng_state({seed, 0});
}

uint64_t initial_seed() { return current_rng_state().seed; }

RngState rng_state(std::source_location where) {
  finish_drawing("the state of the random numbers is read", where);
  return current_rng_state();
}

RngState current_rng_state() {
  Generator& g = generator();
  std::lock_guard lock(g.reserving);
  return g.state;
}

void restore_rng_state(const RngState& state) {
  Generator& g = generator();
  std::lock_guard lock(g.reserving);
  g.state = state;
}

void set_rng_state(const RngState& state, std::source_location where) {
  finish_drawing("the random seed is set", where);
  restore_rng_state(state);
}

}  // namespace tenon
