// The order in which a failing graph is made smaller.
#include "debug/minify/minify.h"

#include "debug/minify/shrink.h"

namespace tenon {

namespace {

// Everything that can go but nodes.
void shrink_rest(Search& search) {
  shrink_outputs(search);
  shrink_bodies(search);
  shrink_inputs(search);
  shrink_sizes(search);
}

Minified result_of(Search& search, std::vector<NodeId> nodes) {
  return {search.best(), search.failure(), std::move(nodes), search.tries() + 1};
}

}  // namespace

Minified minify(Candidate whole, KnownValues known, const FailureJudge& judge,
                const OnProgress& on_progress) {
  Failure failure = judge(whole);
  if (!failure) return {std::move(whole), failure, {}, 1};
  Search search(std::move(whole), std::move(failure), judge, on_progress);
  std::vector<NodeId> nodes = shrink_nodes(search, std::move(known));
  size_t before;
  do {
    before = search.successes();
    shrink_rest(search);
    shrink_nodes(search);
  } while (search.successes() > before);
  return result_of(search, std::move(nodes));
}

Minified minify_nodes(Candidate whole, KnownValues known, Failure failure,
                      const FailureJudge& judge, const OnProgress& on_progress) {
  Search search(std::move(whole), std::move(failure), judge, on_progress);
  std::vector<NodeId> nodes = shrink_nodes(search, std::move(known));
  return result_of(search, std::move(nodes));
}

}  // namespace tenon
