// Real numbers that a call is given or that follow from those: a learning rate, twice that.
//
// Code reads the numbers of a call from one table: tn_call.syms, then the program's reals, each the
// bits of a double. They are computed once a call, before anything runs, so a kernel or an op of
// the host reads a real number as it reads a size. A draw of random numbers has two places, both
// whole numbers: the seed, and behind it the first block of the host's generator that is the
// draw's. The blocks of all draws of a call are taken at once, in the order of the graph.
#pragma once

#include "indices.h"

#include <functional>

namespace loopir {

struct Program;

/// One number of the table, made of earlier ones.
struct Real {
  enum class Op : uint8_t {
    constant,
    index,
    add,
    multiply,
    divide,
    power,
    minimum,
    maximum,
    to_f16,  // a, rounded as an element of that dtype holds it; b is a
    to_bf16,
    seed,        // of a draw
    first_block  // of the draw whose seed is the number before
  };
  Op op;
  double number = 0;      // constant
  Id index = none;        // index: that integer; seed: how many blocks the draw takes
  uint32_t a = 0, b = 0;  // else: places in the table
};

/// The table for these symbols; in `memory` where there are more numbers than those. Takes the
/// blocks of draws from the host's generator.
std::span<const int64_t> table_of(const Program& program, std::span<const int64_t> symbols,
                                  std::vector<int64_t>& memory);

/// Takes that many blocks from a generator: its seed, and the first of them.
using TakeBlocks = std::function<void(uint64_t blocks, uint64_t* seed, uint64_t* first)>;
/// The same, with the blocks that `take` takes.
std::span<const int64_t> table_of(const Program& program, std::span<const int64_t> symbols,
                                  std::vector<int64_t>& memory, const TakeBlocks& take);

}  // namespace loopir
