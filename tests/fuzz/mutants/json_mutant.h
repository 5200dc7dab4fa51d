// Mutants of JSON: trees that differ from one in a few places, where readers have to look.
#pragma once

#include "formats/json.h"
#include "harness/choices.h"

namespace tenon::fuzz {

/// Changes some places of a tree: numbers at the limits, one number for another everywhere, texts
/// that stand elsewhere (names: aliases and cycles), lists that grow and shrink, members that are
/// gone, renamed, copied from elsewhere or of another kind, a tree within itself.
void mutate(formats::Json& tree, Choices& choices);

/// The same for a text; a text that is not JSON stays.
std::string json_mutant(std::string_view text, Choices& choices);

}  // namespace tenon::fuzz
