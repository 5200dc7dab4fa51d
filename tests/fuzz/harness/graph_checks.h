// What must hold for every graph that came from outside.
#pragma once

#include "formats/graph_json.h"
#include "graph/hash.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/verify.h"
#include "harness/fuzz.h"

namespace tenon::fuzz {

/// The graph holds together, and as text and as JSON it stays the same graph.
inline void check_graph(const Graph& graph) {
  check(problems_of(graph).empty(), "a graph was taken that does not hold together");
  PrintOptions all{.inline_elements = 1 << 20};
  std::string text = to_text(graph, all);
  std::shared_ptr<Graph> again = parse_graph(text);
  check(to_text(*again, all) == text, "the graph changes as text:\n" + text);
  check(structural_hash(*again) == structural_hash(graph), "the hash changes:\n" + text);
  check(to_text(*formats::parse_graph_json(formats::to_json(graph, all)), all) == text,
        "the graph changes as JSON:\n" + text);
  all.canonical = true;
  std::string canonical = to_text(graph, all);
  check(to_text(*parse_graph(canonical), all) == canonical,
        "the canonical text changes:\n" + canonical);
}

}  // namespace tenon::fuzz
