// Hashes and equality of graphs.
//
// Two tools for two jobs: `hash_of` is stable over processes (cache keys, files) and costs the
// writing of a text, some microseconds a node; `structural_hash` with `structurally_equal` works
// within a process on the data itself, some 50 ns a node, for caches of traced segments.
#pragma once

#include "core/dispatch.h"
#include "graph/graph.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

using Digest = std::array<uint8_t, 32>;

/// SHA-256.
Digest sha256(std::string_view bytes);
std::string to_hex(std::string_view bytes);
/// SHA-256 of the canonical text.
Digest hash_of(const Graph& graph);
/// As hexadecimal digits.
std::string hash_text(const Graph& graph);

/// Bytes of one element of an argument that is a list of plain values or a text; 0 for others.
size_t element_bytes_of(Tag tag);
/// Whether two arguments are written alike: tag, number of elements and contents. Symbolic numbers
/// are alike when they are the same expression, values when they have the same id.
bool same_argument(const Value& a, const Value& b);
uint64_t hash_argument(const Value& v);

/// Equal graphs (see structurally_equal) have equal hashes.
uint64_t structural_hash(const Graph& graph);
/// Whether both graphs compute the same with values numbered alike: ops, arguments, types, flags,
/// alias groups, outputs, symbol bindings and facts of nodes are equal; symbols are matched by
/// their place in `symbols`, so graphs of two environments can be equal. Constants are equal when
/// they are one memory at one version, or small with equal bytes. Names, locations, hints and
/// ranges do not count.
bool structurally_equal(const Graph& a, const Graph& b);

}  // namespace tenon
