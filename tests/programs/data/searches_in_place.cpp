// Loops whose number of turns is data, over state that is written in place.
#include "program.h"

#include <algorithm>
#include <deque>
#include <optional>

namespace tenon::programs {
namespace {

TENON_PROGRAM(RootsByNewton, 4) {
  Tensor x = row({4, 9, 16, 2}), guess = ones({4});
  auto f = run.compile([&](double tolerance) {
    int turns = 0;
    while ((guess * guess - x).abs().max().item<float>() > tolerance && turns < 20) {
      guess.copy_((guess + x / guess) * 0.5);
      ++turns;
    }
    return turns;
  });
  for (double t : {1.0, 0.1, 0.5, 0.01}) {
    run.log(f(t), (guess * 4).round());
    guess.add_(0.5);
  }
}

TENON_PROGRAM(AGraphIsSearched, 248) {
  Tensor edges = tensor({0, 1, 1, 2, 2, 3, 4, 5, 3, 0}).reshape({5, 2});
  auto f = run.compile([&](int64_t from) {
    Tensor visited = zeros({6}, Dtype::bool_);
    visited[from].fill_(true);
    Tensor frontier = visited.clone();
    int depth = 0;
    while (frontier.any().item<bool>()) {
      Tensor next = zeros({6}, Dtype::bool_);
      for (int e = 0; e < 5; ++e) {
        int64_t a = edges[e][0].item<int64_t>(), b = edges[e][1].item<int64_t>();
        if (frontier[a].item<bool>()) next[b].fill_(true);
      }
      frontier = next & ~visited;
      visited = visited | next;
      ++depth;
    }
    return std::pair(visited, depth);
  });
  for (int i = 0; i < 6; ++i) {
    auto [v, d] = f(i);
    run.log(v, d);
  }
}

TENON_PROGRAM(ARingThatIsLeftEarly, 20) {
  Tensor ring = zeros({4, 2});
  int at = 0;
  auto f = run.compile([&](const Tensor& x) {
    int n = x.abs().sum().item<int>();
    for (int i = 0; i < n % 5; ++i) {
      ring[at % 4].add_(x * double(i));
      if ((ring[at % 4] > 3).any().item<bool>()) {
        ring[at % 4].zero_();
        continue;
      }
      ++at;
      if (at % 7 == 6) return ring * -1.0;
    }
    return ring + 0.5;
  });
  for (int i = 0; i < 10; ++i) run.log(f(halves({2}, i) * double(i % 3 + 1)), at);
}

Tensor quick(const Tensor& x) {
  if (int64_t(x.size(0)) <= 1) return x;
  Tensor pivot = x[0];
  Tensor low = x.masked_select(x < pivot), same = x.masked_select(x == pivot),
         high = x.masked_select(x > pivot);
  return cat({quick(low), same, quick(high)});
}
TENON_PROGRAM(SortingByRecursion, 42) {
  auto f = run.compile([](const Tensor& x) { return quick(x) * 2.0; });
  for (int i = 0; i < 4; ++i) run.log(f(halves({5 + i}, i)));
}

TENON_PROGRAM(RowsSortedByTheHost, 12) {
  auto f = run.compile([&](const Tensor& x) {
    std::vector<std::pair<float, int>> rows;
    for (int i = 0; i < int(x.size(0)); ++i) rows.push_back({x[i].sum().item<float>(), i});
    std::sort(rows.begin(), rows.end());
    std::vector<Tensor> sorted;
    for (auto& [v, i] : rows) sorted.push_back(x[i] * double(i + 1));
    return stack(sorted);
  });
  for (int i = 0; i < 5; ++i) run.log(f(halves({3 + i % 2, 2}, i)));
}

TENON_PROGRAM(TheBestSoFar, 14) {
  auto f = run.compile([](Tensor x, int n) {
    Tensor best = x;
    for (int i = 0; i < n; ++i) {
      x = x * 0.5 + double(i);
      if (bool(x.sum() > best.sum())) best = x;
      if (!x.isfinite().all()) break;
      if ((best - x).abs().max().item<float>() > 4) return best;
    }
    return x - best;
  });
  for (int i = 0; i < 8; ++i) run.log(f(i == 5 ? halves({2}) / 0.0 : halves({2}, i), i));
}

// A view chain is assigned over and over, in loops whose number of turns is data.
TENON_PROGRAM(AWalkOnAGrid, 34) {
  Tensor grid = zeros({3, 4});
  auto f = run.compile([&](const Tensor& moves) {
    int r = 0, c = 0;
    for (int64_t m : moves.to_vector<int64_t>()) {
      (m % 2 ? r : c) += m > 2 ? -1 : 1;
      r = (r + 3) % 3;
      c = (c + 4) % 4;
      Tensor cell = grid[r][c];
      cell += 1.0;
      if (cell.item<float>() == 3) cell.zero_();
    }
    return grid.sum(0);
  });
  for (int i = 0; i < 5; ++i) run.log(f((arange(4 + i) * (i + 3)) % 5), grid);
}

TENON_PROGRAM(AQueueThatIsServed, 6) {
  // Early returns of an optional, from within loops, with states moved out.
  std::deque<Tensor> queue;
  auto f = run.compile([&](Tensor x) -> std::optional<std::pair<Tensor, int>> {
    queue.push_back(std::move(x));
    for (int i = 0; i < int(queue.size()); ++i) {
      if (queue[size_t(i)].sum().item<float>() > 1) {
        Tensor t = std::move(queue[size_t(i)]);
        queue.erase(queue.begin() + i);
        return std::pair(t * 2.0, i);
      }
    }
    if (queue.size() > 2) {
      queue.front().mul_(-1.0);
      return std::nullopt;
    }
    return std::pair(queue.back(), -1);
  });
  for (int i = 0; i < 10; ++i) {
    auto r = f(halves({3}, i));
    if (r) run.log(r->first, r->second);
    run.log(queue.size());
    for (auto& t : queue) run.log(t);
  }
}

TENON_PROGRAM(TruthsInLoops, 20) {
  // Bools: as masks, as conditions of loops, as arithmetic.
  auto f = run.compile([](const Tensor& x) {
    Tensor m = x > 0, any = m.any(), all = m.all();
    Tensor y = where(any & ~all, x, -x);
    if (any && !all) y = y + 1.0;
    int n = 0;
    while ((y.abs() > 1).any()) y = y * 0.5, ++n;
    return std::tuple(y, m ^ (y > 0), m.sum() + n, bool(all), m.to(Dtype::i64).cumsum(0),
                      (m == (y > 0)).all().item<bool>());
  });
  for (int i = 0; i < 7; ++i) {
    auto [a, b, c, d, e, g] = f(halves({3}, i) + (i == 4 ? 9.0 : i == 5 ? -9.0 : 0.0));
    run.log(a, b, c, d, e, g);
  }
}

TENON_PROGRAM(SizesThatTheDataDouble, 10) {
  auto f = run.compile([](const Tensor& x, const Tensor& n) {
    Tensor out = x;
    int64_t k = n.item<int64_t>();
    for (int64_t i = 0; i < k; ++i) {
      out = out.repeat({2}).slice(0, 0, 5) * 0.5;
      if (out.size(0) > 4) out = out.slice(0, 1, out.size(0));
    }
    return out.view({-1, out.size(0) % 2 == 0 ? 2 : 1});
  });
  for (int i = 0; i < 8; ++i) run.log(f(halves({1 + i % 4}, i), tensor(int64_t(i % 3))));
}

}  // namespace
}  // namespace tenon::programs
