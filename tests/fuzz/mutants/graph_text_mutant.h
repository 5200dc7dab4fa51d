// Mutants of graph texts (.tng), word by word.
#pragma once

#include "harness/choices.h"

#include <string>
#include <string_view>

namespace tenon::fuzz {

/// Changes some words or lines of a graph text: numbers, one number or dtype for another everywhere
/// (often a graph that is accepted), ops, names of values, properties, lists, lines that are gone,
/// twice or elsewhere.
std::string graph_text_mutant(std::string_view text, Choices& choices);

}  // namespace tenon::fuzz
