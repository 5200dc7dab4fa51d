// Trying candidates, and delta debugging on sets.
#include "debug/minify/search.h"

#include "core/error.h"
#include "core/sym/shape_env.h"

#include <algorithm>
#include <numeric>

namespace tenon {

namespace {

std::string identity_of(const Candidate& candidate) {
  std::string out = whole_text(*candidate.graph);
  for (const Tensor& t : candidate.inputs)
    out += t.defined() ? message(" {}", reinterpret_cast<uintptr_t>(t.head()->data)) : " -";
  return out;
}

int64_t elements_of(const Graph& graph) {
  int64_t sum = 0;
  for (ValueId v : graph.inputs()) {
    if (graph.value(v).kind != ValueKind::tensor) continue;
    int64_t n = 1;
    for (SymInt size : graph.value(v).meta.sizes)
      n *= size.is_symbolic() ? graph.shape_env->int_hint(size).value_or(1) : size.word();
    sum += n;
  }
  return sum;
}

/// A set that shrinks.
class Part {
 public:
  Part(size_t n, const std::function<bool(const std::vector<size_t>&)>& fails, size_t least)
      : kept_(n), fails_(fails), least_(least) {
    std::iota(kept_.begin(), kept_.end(), size_t{0});
  }

  std::vector<size_t> run() && {
    for (size_t chunk = half(); chunk > 0 && kept_.size() > least_;) {
      if (shrink(chunk))
        chunk = half();
      else
        chunk = chunk == 1 ? 0 : (chunk + 1) / 2;
    }
    return std::move(kept_);
  }

 private:
  size_t half() const { return std::max<size_t>(1, (kept_.size() + 1) / 2); }

  // One pass over all chunks; whether the set became smaller.
  bool shrink(size_t chunk) {
    for (size_t begin = 0; begin < kept_.size(); begin += chunk)
      if (chunk < kept_.size() && take(part(begin, chunk, true))) return true;
    bool has_shrunk = false;
    for (size_t end = kept_.size(); end > 0;) {
      size_t begin = end > chunk ? end - chunk : 0;
      if (take(part(begin, end - begin, false))) has_shrunk = true;
      end = std::min(begin, kept_.size());
    }
    return has_shrunk;
  }
  std::vector<size_t> part(size_t begin, size_t n, bool keep) const {
    std::vector<size_t> out;
    for (size_t i = 0; i < kept_.size(); ++i)
      if ((i >= begin && i < begin + n) == keep) out.push_back(kept_[i]);
    return out;
  }
  bool take(std::vector<size_t> part) {
    if (part.size() < least_ || part.size() >= kept_.size() || !fails_(part)) return false;
    kept_ = std::move(part);
    return true;
  }

  std::vector<size_t> kept_;
  const std::function<bool(const std::vector<size_t>&)>& fails_;
  size_t least_;
};

}  // namespace

Search::Search(Candidate whole, Failure failure, const FailureJudge& judge,
               const OnProgress& on_progress)
    : best_(std::move(whole)),
      failure_(std::move(failure)),
      judge_(judge),
      on_progress_(on_progress) {
  best_.inputs.resize(best_.graph->inputs().size());
}

bool Search::take(Candidate candidate) {
  if (!tried_.insert(identity_of(candidate)).second) return false;
  ++tries_;
  Failure failure = judge_(candidate);
  if (!is_same(failure, failure_)) return false;
  best_ = std::move(candidate);
  failure_ = std::move(failure);
  ++successes_;
  if (on_progress_) on_progress_(progress());
  return true;
}

SearchProgress Search::progress() const {
  return {graph().nodes().size(), graph().inputs().size(), graph().outputs().size(),
          elements_of(graph()), tries_};
}

std::vector<size_t> smallest_part(size_t n,
                                  const std::function<bool(const std::vector<size_t>&)>& fails,
                                  size_t least) {
  return Part(n, fails, least).run();
}

}  // namespace tenon
