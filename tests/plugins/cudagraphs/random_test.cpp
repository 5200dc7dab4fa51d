// Random programs of recorded functions: calls, sizes, views, drops, clones, writes, draws, steps
// and resets in any order, beside the same in eager mode on the CPU.
//
// TENON_TEST_GRAPH_PROGRAMS: how many (12); TENON_TEST_GRAPH_STEPS: how long each is (60);
// TENON_TEST_GRAPH_SEED: the first one's seed (1).
#include "graphs.h"

#include <tenon/compiler.h>

#include <cstdlib>
#include <memory>
#include <random>

namespace tenon::graphs {
namespace {

int64_t number_from(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}

struct Statement {
  uint32_t op, a, b;
};

/// A function of two tensors of shape [n, 3] and a state of shape [3], which it may write.
struct Function {
  std::vector<Statement> body;
  size_t n_results = 1;
  bool writes_state = false, writes_argument = false;
};

bool draws(const Statement& s) { return s.op % 10 == 7 || s.op % 10 == 8; }

// Halves and maxima are exact, so that any order of the device's arithmetic gives the same bits.
Tensor step_of(const Statement& s, const std::vector<Tensor>& values) {
  const Tensor &a = values[s.a % values.size()], &b = values[s.b % values.size()];
  switch (s.op % 10) {
    case 0:
      return a * 0.5 + b * 0.5;
    case 1:
      return maximum(a, b);
    case 2:
      return a.relu() - 1.0;
    case 3:
      return -a;
    case 4:
      return cat({a.narrow(1, 1, 2), b.narrow(1, 0, 1)}, 1);
    case 5:
      return minimum(a, b.select(0, 0));
    case 6:
      return a.amax({0}, true) * 0.5 + b;
    case 7:
      return dropout(a, 0.5, true) * 0.5;
    case 8:
      return a + bernoulli(zeros_like(b) + 0.5);
    default:
      return a.t().contiguous().t() * 0.25;
  }
}

std::vector<Tensor> run(const Function& f, Tensor x, const Tensor& y, Tensor state) {
  std::vector<Tensor> values{x, y};
  Tensor read =
      zeros_like(y.select(0, 0));  // every draw is read: what nobody reads may be left out
  for (const Statement& s : f.body) {
    values.push_back((step_of(s, values) + state).clamp(-64.0, 64.0));  // finite in long programs
    if (draws(s)) read = read + values.back().amax({0}) * 0.0;
  }
  if (f.writes_state) state.copy_(values.back().amax({0}) * 0.5);
  if (f.writes_argument) x.mul_(0.5).add_(values[2] * 0.25);
  std::vector<Tensor> results(values.end() - static_cast<ptrdiff_t>(f.n_results), values.end());
  results[0] = results[0] + read;
  if (f.n_results > 1) results.back() = results[0].select(0, 0);  // a view of another result
  return results;
}

/// A tensor on both sides.
struct Pair {
  Tensor here, on_gpu;
};

class Play {
 public:
  Play(uint64_t seed, const Options& options)
      : random_(seed), is_pool_(options.options.contains("cuda_graph_outputs")) {
    for (int i = 0; i < 3; ++i) {
      Function f;
      for (uint32_t k = 0, n = 2 + any(4); k < n; ++k)
        f.body.push_back({any(1000), any(1000), any(1000)});
      f.n_results = 1 + any(3);
      f.n_results = std::min(f.n_results, f.body.size());
      f.writes_state = any(3) == 0;
      f.writes_argument = any(4) == 0;
      add_function(f, options);
    }
    for (int i = 0; i < 4; ++i) keep(fresh(2 + any(2)));
  }

  int64_t calls() const { return calls_; }

  void run_steps(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      act();
      if (testing::Test::HasFatalFailure()) return;
    }
    for (const Pair& p : pool_) compare(p);
    for (const auto& f : functions_) compare(f->state);
  }

 private:
  using Compiled =
      CompiledFunction<std::function<std::vector<Tensor>(const Tensor&, const Tensor&)>>;
  struct Known {
    Function f;
    Pair state;
    std::optional<Compiled> compiled;
  };

  uint32_t any(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void add_function(const Function& f, const Options& options) {
    auto known = std::make_unique<Known>(Known{f, {}, {}});
    Tensor state = tensor(std::vector<float>{0.5, -1, float(functions_.size())});
    known->state = {state, there(state)};
    Known* k = known.get();
    std::function<std::vector<Tensor>(const Tensor&, const Tensor&)> body =
        [k](const Tensor& x, const Tensor& y) { return graphs::run(k->f, x, y, k->state.on_gpu); };
    known->compiled.emplace(compile(std::move(body), options));
    functions_.push_back(std::move(known));
  }

  Pair fresh(int64_t n) {
    Tensor t = make_numbers(n);
    return {t, there(t)};
  }
  Tensor make_numbers(int64_t n) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < n * 3; ++i) numbers.push_back(float(int(any(15)) - 7) * 0.5f);
    return tensor(numbers).reshape({n, 3});
  }
  void keep(Pair p) {
    if (pool_.size() > 12) pool_.erase(pool_.begin() + any(12));
    pool_.push_back(std::move(p));
  }
  static void compare(const Pair& p) {
    Tensor back = moved(kCPU, p.on_gpu);
    ASSERT_EQ(to_text(back.sizes()), to_text(p.here.sizes()));
    std::vector<float> found = back.contiguous().to_vector<float>();
    ASSERT_EQ(found, p.here.contiguous().to_vector<float>());
  }

  void call() {
    Known& f = *functions_[any(static_cast<uint32_t>(functions_.size()))];
    Pair x = pool_[any(static_cast<uint32_t>(pool_.size()))];
    std::vector<Pair> alike;
    for (const Pair& p : pool_)
      if (p.here.size(0) == x.here.size(0)) alike.push_back(p);
    Pair y = alike[any(static_cast<uint32_t>(alike.size()))];
    std::vector<Pair> results = called(f, x, y);
    if (is_pool_) results = out_of_the_pool(std::move(results));
    for (Pair& p : results) {
      if (any(2)) compare(p);
      if (p.here.dim() == 2)
        keep(std::move(p));
      else
        views_.push_back(std::move(p));
    }
    if (views_.size() > 5) views_.erase(views_.begin());
  }

  std::vector<Pair> called(Known& f, const Pair& x, const Pair& y) {
    ++calls_;
    RngState before = rng_state();
    std::vector<Tensor> expected = graphs::run(f.f, x.here, y.here, f.state.here);
    RngState behind = rng_state();
    set_rng_state(before);
    std::vector<Tensor> found = (*f.compiled)(x.on_gpu, y.on_gpu);
    EXPECT_EQ(rng_state(), behind) << "as many numbers are drawn";
    EXPECT_EQ(found.size(), expected.size());
    std::vector<Pair> out;
    for (size_t i = 0; i < found.size(); ++i) out.push_back({expected[i], found[i]});
    return out;
  }

  // Results are copied before the next call, which may be given one of them.
  std::vector<Pair> out_of_the_pool(std::vector<Pair> results) {
    std::vector<Pair> out;
    for (uint32_t n = any(4);; --n) {
      for (const Pair& p : results) {
        compare(p);
        out.push_back({p.here.clone(), p.on_gpu.clone()});
      }
      if (n == 0 || results[0].here.dim() != 2) return out;
      Known& next = *functions_[any(static_cast<uint32_t>(functions_.size()))];
      Pair given = results[0];
      results = called(next, given, given);
    }
  }

  void act() {
    uint32_t at = any(static_cast<uint32_t>(pool_.size()));
    switch (any(16)) {
      case 0:
        return keep(fresh(2 + any(2)));
      case 1:
        if (pool_.size() > 3) pool_.erase(pool_.begin() + at);
        return;
      case 2:
        return keep({pool_[at].here.clone(), pool_[at].on_gpu.clone()});
      case 3:
        pool_[at].here.fill_(0.5);
        pool_[at].on_gpu.fill_(0.5);
        return;
      case 4:
        return compiler::cudagraph_mark_step_begin();
      case 5:
        for (const Pair& p : views_) compare(p);
        return views_.clear();
      case 6:
        pool_[at].here.add_(1.0);
        pool_[at].on_gpu.add_(1.0);
        return;
      case 7:
        if (any(12) == 0) reset();
        return;
      case 8:
        return compare(pool_[at]);
      default:
        return call();
    }
  }

  std::mt19937_64 random_;
  bool is_pool_;  // results are over with their step
  int64_t calls_ = 0;
  std::vector<std::unique_ptr<Known>> functions_;
  std::vector<Pair> pool_, views_;
};

class RandomPrograms : public Graphs {};

TEST_F(RandomPrograms, DoWhatEagerOnesDo) {
  int64_t n = number_from("TENON_TEST_GRAPH_PROGRAMS", 12);
  int64_t first = number_from("TENON_TEST_GRAPH_SEED", 1);
  int64_t calls = 0, replays = 0;
  for (int64_t seed = first; seed < first + n; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    seed_streams(static_cast<uint64_t>(seed));
    std::map<std::string, std::string> options{{"slow_path_cudagraph_asserts", "true"},
                                               {"cuda_graph_poison", "true"}};
    if (seed % 3 == 0) options["skip_cudagraph_warmup"] = "true";
    if (seed % 4 == 0) options["cuda_graph_max_sizes"] = "1";
    if (seed % 5 == 0) options["cudagraph_unexpected_rerecord_limit"] = "2";
    if (seed % 6 == 1) options["cuda_graph_outputs"] = "\"pool\"";
    auto flags =
        config::patch({{"dynamo.cudagraph_backend_keep_input_mutation", seed % 2 == 1},
                       {"dynamo.cudagraph_backend_support_input_mutation", seed % 4 == 1}});
    bool is_fused = std::getenv("TENON_COMPILER_DEVICE_FALLBACK") == nullptr && seed % 2 == 0;
    Play play(static_cast<uint64_t>(seed), is_fused ? fused(options) : recorded(options));
    play.run_steps(number_from("TENON_TEST_GRAPH_STEPS", 60));
    calls += play.calls();
    replays += n_replays();
    if (HasFatalFailure()) return;
  }
  RecordProperty("calls", std::to_string(calls));
  RecordProperty("replays", std::to_string(replays));
}

}  // namespace
}  // namespace tenon::graphs
