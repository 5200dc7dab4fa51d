// Leaving out nodes and outputs.
#include "debug/minify/shrink.h"

namespace tenon {

namespace {

template <class T>
std::vector<T> chosen(std::span<const T> from, const std::vector<size_t>& places) {
  std::vector<T> out;
  for (size_t i : places) out.push_back(from[i]);
  return out;
}

}  // namespace

std::vector<NodeId> shrink_nodes(Search& search, KnownValues known) {
  CandidateCutter cutter(search.best(), std::move(known));
  auto fails = [&](const std::vector<size_t>& part) {
    return search.take(cutter.cut(std::vector<NodeId>(part.begin(), part.end())));
  };
  std::vector<size_t> left = smallest_part(cutter.whole().graph->nodes().size(), fails);
  return {left.begin(), left.end()};
}

void shrink_outputs(Search& search) {
  Candidate whole = search.best();
  auto fails = [&](const std::vector<size_t>& part) {
    std::shared_ptr<Graph> fewer = clone(*whole.graph);
    fewer->set_outputs(chosen(whole.graph->outputs(), part));
    return search.take(tidied({fewer, whole.inputs}));
  };
  smallest_part(whole.graph->outputs().size(), fails);
}

}  // namespace tenon
