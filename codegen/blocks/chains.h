// Runs of steps whose values stay in registers.
//
// Problem: a step writes a block and the next one reads it; what is computed between a load and a
//   store need not leave the registers.
// Model: steps over blocks of f32 whose primitives the accumulator of elements/chain.h has, one
//   behind the other in a body. What only says where memory is may stand between them, and goes
//   before them. Of what they make only that is written that other steps read.
// Method: made when code is loaded, from steps and from where their registers lie, so that saved code
//   knows nothing of it. The steps stay behind their chain and run where a block is shorter than one
//   group of elements.
// Cost: linear in steps; a run of n operations saves n - 1 passes over the block at most.
#pragma once

#include "code.h"

#include <utility>
#include <vector>

namespace blocks {

/// What one chain does, for any block.
struct Chain {
  size_t n_steps = 0;  // of the body, which it does the work of
  std::vector<ChainStep> operations;
  // Places: blocks, then what is saved, then numbers as vectors, then numbers.
  std::vector<Id> blocks, vectors, numbers;  // registers
  std::vector<bool> is_read, is_written;     // by block
  uint32_t n_saved = 0;

  size_t n_places() const { return blocks.size() + n_saved + vectors.size() + numbers.size(); }
  /// Of memory beside the registers.
  int64_t scratch_bytes() const;
  /// Whether it is quicker than its steps: what is left behind whole groups costs a copy.
  static bool is_for(int64_t n) {
    int64_t group = elements().chain_elements;
    return n >= 4 * group || (n >= group && n % group == 0);
  }
  /// Does it for n elements, as many as a group has or more.
  void run(void* const* registers, std::byte* scratch, int64_t n) const;
};
constexpr size_t most_places = 48;

/// Of a body: in which order its steps run, and the chains, by the step that they begin with.
struct Chained {
  std::vector<Step> steps;
  std::vector<std::pair<size_t, Chain>> chains;
};

class ChainMaker {
 public:
  explicit ChainMaker(const Code& code);
  Chained chained(size_t body) const;

 private:
  struct Group {
    std::vector<Step> before, steps;
  };
  void close(Group& group, Chained& out) const;
  bool can_wait(const Step& s, const Group& group) const;
  bool has_others(const Group& group, Id value) const;

  const Code& code_;
  std::vector<int> mentions_, writers_;  // by register of values
  std::vector<bool> stores_;             // by buffer
};

}  // namespace blocks
