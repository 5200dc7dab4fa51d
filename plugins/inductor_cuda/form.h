// How a nest becomes a grid of threads: all that is known of a kernel before its code.
//
// Problem: a nest says which points are computed, not who computes which. Model: units are points
// of the outer variables, or some neighbours of them; `Form` says who takes a unit. A kernel has up
// to two versions: the fast one reads several neighbours at once and counts in 32 bits, which needs
// what `Conditions` lists; the general one always works. What is known while compiling leaves no
// condition, and where all of it is known there is one version.
#pragma once

#include <loopir/kernel.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace inductor_cuda {

using loopir::Id;
using loopir::Ids;
using loopir::none;

struct Form {
  enum class Kind : uint8_t {
    points,   // a thread takes a unit: `vector` neighbours over lanes, all stages in order
    rows,     // a block takes a unit: its threads share the inner variables
    columns,  // a block takes 32 neighbours over lanes, and 32 threads each row of inner points
    tiles  // a block takes 32 x 32 points: what lies the other way in memory is turned in shared memory
  };
  Kind kind = Kind::points;
  unsigned threads = 256;     // of a block
  unsigned vector = 1;        // neighbours that a thread takes at once
  unsigned in_registers = 0;  // rows: so many vectors of a row a thread keeps; 0: it loops
  unsigned index_bits = 64;
  /// Blocks that a multiprocessor is to hold at once, which bounds the registers of a thread; 0: no
  /// bound.
  unsigned least_blocks = 0;
};

struct Multiple {
  Id index = none;
  unsigned of = 1;
  bool operator==(const Multiple&) const = default;
};

/// What the fast version of a kernel asks of a call.
struct Conditions {
  std::vector<Multiple> multiples;
  std::map<Id, unsigned> aligned;  // addresses of these buffers, in bytes
  bool counts_in_32_bits = false;  // all buffers have fewer than 2^31 elements, and units
};

struct KernelPlan {
  Form form;
  loopir::Nest nest;  // with the variables of the form
  Conditions conditions;
  std::string symbol;              // a digest of its key
  Ids buffers;                     // the first parameters
  Ids host_numbers;                // elements on the host: parameters behind those
  std::vector<uint32_t> numbers;   // places in the call's table: parameters behind those
  std::map<Id, int64_t> scratch;   // rows of the kernel's own: bytes of a unit before it
  int64_t scratch_bytes = 0;       // of a unit
  bool scratch_is_shared = false;  // else it is global memory, the parameter behind buffers
  bool is_atomic = false;          // a scatter whose points are all threads'
  bool apart = false;              // points: each statement is a warp's, there being one point
  bool is_open = false;            // points: the number of units is the parameter behind those
  bool has_checks = false;         // of positions or divisors: three parameters at the end
  Id units = none, blocks = none;
  /// An access of lanes that are neighbours. What is an access of lanes in one stage may be one of a
  /// single element in another.
  struct Neighbours {
    Id buffer;  ///< none: a draw of random numbers
    Id index, lanes;
    auto operator<=>(const Neighbours&) const = default;
  };
  std::map<Neighbours, unsigned> widths;

  int64_t fold_bytes = 0;  // shared memory that reductions of a block, or tiles, take
  Id across = none;        // tiles: the outer variable over which loads are neighbours
  Ids crossed;             // tiles: those loads, as values
  int64_t tile_item = 4;   // tiles: bytes of an element in shared memory

  bool has_global_scratch() const { return scratch_bytes > 0 && !scratch_is_shared; }
};

struct FormOptions {
  int64_t multiprocessors = 132;
  int64_t shared_bytes = 48 << 10;  // of a block
  bool allows_fast = true;
  /// How often the code spilled registers: where they had a bound, it is gone after the first time. Each
  /// other time a thread takes half the neighbours, and from the second one on rows are read again
  /// rather than kept.
  unsigned spills = 0;
  bool is_deterministic = false;  // sums of real numbers in one order
  unsigned adds_together = 1;     // neighbours in f32 that one instruction adds to
};

/// Neighbouring columns of a block of that form.
constexpr unsigned columns_of_block = 32;
constexpr unsigned threads_of_warp = 32;
/// Points of a tile in each direction, and rows that the threads of a block take at once.
constexpr unsigned side_of_tile = 32, rows_at_once = 8;
/// Between rows of a tile in shared memory, so that columns of it lie in different banks.
constexpr unsigned pitch_of_tile = side_of_tile + 1;
/// Shared memory of one folded part: a value and a position.
constexpr int64_t bytes_of_part = 16;

/// The versions of a kernel, the one to prefer first.
std::vector<KernelPlan> plans_of(loopir::Program& program, const loopir::Kernel& kernel,
                                 const FormOptions& options);

/// Everything that decides about its code, as text.
std::string key_of(loopir::Program& program, const KernelPlan& plan, const std::string& options);

}  // namespace inductor_cuda
