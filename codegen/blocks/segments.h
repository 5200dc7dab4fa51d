// Rows that are so short that a block takes several of them.
//
// Problem: a step over a block costs some 8 ns whatever it does, which is what 100 elements cost; a
//   softmax of 16 numbers takes 25 steps.
// Model: neighbouring rows lie behind one another in a block; a segment is the part that is a row.
//   What differs from row to row only is a block of its own, with one element a row.
// Method: steps over elements take all rows of a block at once; a fold goes segment by segment, and
//   what it gives is spread over the segments where elements need it. Sizes may be known at calls
//   only: then code for long rows stands beside this one, and each looks whether its turn has come.
#pragma once

#include <loopir/kernel.h>

#include <optional>

namespace blocks {

/// Short rows of a nest.
struct Segments {
  loopir::Id rows = loopir::none;     // the variable that goes from row to row
  loopir::Id longest = loopir::none;  // the most elements of a row that a stage has, as an index
  bool are_certain = false;           // rows are short, whatever the sizes are
  bool have_folds = true;             // else lanes are the elements, each with folds of its own
};

/// What of a nest can be made so; `width`: elements of a block.
std::optional<Segments> segments_of(loopir::Program& program, const loopir::Nest& nest,
                                    int64_t width);

}  // namespace blocks
