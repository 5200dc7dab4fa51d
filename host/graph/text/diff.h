// The difference of two graphs, for people: statements that only one of them has, or that differ.
//
// Problem. Two stages of one graph have other value names, and parts of one are taken apart in the
// other. A text comparison would call every line different.
//
// Model. A statement is its op, its plain arguments and the types of its results; which values it
// reads is a second question. Statements are paired by a longest common subsequence of the former
// (Hirschberg, Communications of the ACM 18(6), 1975). Pairs say which value of one graph is which
// of the other; a pair that reads other values under these names is a difference, too. Symbols are
// named alike by their places, bodies are compared by theirs.
//
// Cost: time is the product of the numbers of statements between the common beginning and the
// common end, memory their sum. A pair of graphs with 10,000 statements each takes below a second.
#pragma once

#include "graph/graph.h"

#include <string>
#include <vector>

namespace tenon {

struct DiffLine {
  /// in_both, only in one of them, or statements that are left out here because both have them.
  enum class Kind : uint8_t { in_both, removed, added, left_out } kind;
  std::string text;  ///< in the names of the first graph where it has the value

  friend bool operator==(const DiffLine&, const DiffLine&) = default;
};

/// Empty where both graphs compute the same with the same ops; up to `context` statements that both
/// have stand around each difference.
std::vector<DiffLine> difference(const Graph& a, const Graph& b, size_t context = 2);
/// A line each, with "  ", "- ", "+ " or "... " in front.
std::string to_text(const std::vector<DiffLine>& lines);

}  // namespace tenon
