// What a nest reads and writes, and how many neighbours one access may take.
#pragma once

#include "form.h"

namespace inductor_cuda {

constexpr int64_t warp_size = 32;

/// One load or store. `lanes`: the variable over which neighbours are taken, or none.
struct Access {
  Id buffer, index, lanes;
  bool is_masked = false;   // done under a condition, or not a plain store
  bool is_changed = false;  // added to, or the like
};
std::vector<Access> accesses_of(loopir::Program& program, const loopir::Nest& nest);
/// The same of the places of random numbers, which have no buffer.
std::vector<Access> draws_of(loopir::Program& program, const loopir::Nest& nest);

/// Loads that are neighbours over `across` and not over `lanes`, as values; `across` is an outer
/// variable of the nest, chosen here.
Ids crossed_loads(loopir::Program& program, const loopir::Nest& nest, Id& across);

/// How many buffers the folds read along what they fold.
size_t rows_folded(loopir::Program& program, const loopir::Nest& nest);
/// Whether neighbours in 16 bits take few registers: few accesses, and numbers of 32 bits throughout.
bool needs_few_registers(loopir::Program& program, const loopir::Nest& nest);

/// Statements that are one code over other buffers: their numbers, and the buffers of each.
struct AlikeStatements {
  std::vector<size_t> numbers;
  std::vector<Ids> buffers;
};
/// Those of the nest's first stage.
std::vector<AlikeStatements> alike_statements(loopir::Program& program, const loopir::Nest& nest);

/// Whether positions or divisors are checked.
bool has_checks(loopir::Program& program, const loopir::Nest& nest);

/// The most neighbours, `most` at most and a power of two, that begin at a multiple of their number
/// wherever the lanes do. Adds what has to hold for that and is known at a call only.
unsigned widest_access(loopir::Program& program, const Access& access, unsigned most,
                       std::vector<Multiple>& multiples);

/// Whether an index is a multiple of `of`, whatever its variables are. Adds what has to hold for that
/// and is known at a call only.
bool is_multiple(loopir::Program& program, Id index, unsigned of, std::vector<Multiple>& multiples);

/// The one inner variable that all stages with any have, in the names of the first such stage; none
/// where rows differ, or where a row in scratch is read elsewhere than it was written.
Id common_row(loopir::Program& program, const loopir::Nest& nest);
/// The same elements by the same names in all stages.
void name_rows(loopir::Program& program, Id row, loopir::Nest& nest);

/// Adds the places in the table of numbers that the nest and these indices read.
void add_numbers(loopir::Program& program, const loopir::Nest& nest, const Ids& indices,
                 std::vector<uint32_t>& out);

}  // namespace inductor_cuda
