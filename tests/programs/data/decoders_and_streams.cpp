// Decoding and streaming: caches in pages and rings, drafts that are taken back, beams that end.
#include "program.h"

#include <deque>

namespace tenon::programs {
namespace {

TENON_PROGRAM(ACacheInPages, 6) {
  // Paged cache: blocks of a pool, tables of sequences.
  Tensor pool = zeros({6, 2, 2});
  std::vector<std::vector<int64_t>> tables(2);
  std::vector<int64_t> lengths(2);
  int64_t next = 0;
  auto write = run.compile([&](const Tensor& x, int seq) {
    int64_t n = lengths[size_t(seq)]++;
    auto& table = tables[size_t(seq)];
    if (n % 2 == 0) table.push_back(next++);
    pool[table.back()][n % 2].copy_(x);
    Tensor all = pool.index_select(0, tensor(table)).reshape({-1, 2}).slice(0, 0, n + 1);
    return softmax(all.matmul(x), 0).unsqueeze(0).matmul(all);
  });
  for (int i = 0; i < 10; ++i) run.log((write(halves({2}, i), i % 3 == 0) * 64).round(), lengths);
}

TENON_PROGRAM(BeamsThatEnd, 4) {
  // Finished beams leave the batch, down to none.
  Tensor table = halves({4, 4}, 3);
  auto step = run.compile([&](const Tensor& ids, const Tensor& score) {
    Tensor logits = table.index_select(0, ids) + score.unsqueeze(1);
    auto [best, word] = logits.max(1);
    Tensor going = (word != 0) & (best < 4);
    return std::tuple(word.masked_select(going), best.masked_select(going),
                      going.sum().item<int64_t>());
  });
  Tensor ids = tensor({0, 1, 2, 3, 1}), score = zeros({5});
  for (int i = 0; i < 7; ++i) {
    auto [w, s, n] = step(ids, score);
    run.log(w, s, n);
    ids = w;
    score = s + 0.5;
  }
}

TENON_PROGRAM(DraftsAreCheckedAndCut, 6) {
  // Speculative decoding: drafts are checked, the cache is cut.
  Tensor cache = zeros({0, 2});
  Tensor table = halves({5, 2}, 1);
  auto verify = run.compile([&](const Tensor& drafts) {
    Tensor e = table.index_select(0, drafts);
    Tensor all = cat({cache, e});
    Tensor scores = e.matmul(all.t()).argmax(1) % 5;
    Tensor same = (scores == drafts).to(Dtype::i64).cumprod(0);
    int64_t accepted = same.sum().item<int64_t>();
    cache = all.slice(0, 0, int64_t(cache.size(0)) + accepted + 1);
    return std::pair(scores, accepted);
  });
  for (int i = 0; i < 8; ++i) {
    auto [s, n] = verify(tensor({i % 5, (i * 2) % 5, (i + 3) % 5}));
    run.log(s, n, cache);
    if (i == 4) cache = zeros({0, 2});
  }
}

TENON_PROGRAM(SamplesOfTheLikeliest, 6) {
  double temperature = 1;
  auto sample = run.compile([&](const Tensor& logits, int k) {
    auto [values, places] = topk(logits / temperature, k);
    Tensor pick = multinomial(softmax(values, -1), 1);
    return places.gather(-1, pick).squeeze(-1);
  });
  for (int i = 0; i < 10; ++i) {
    temperature = 0.5 + i % 3;
    if (i == 5) manual_seed(11);
    run.log(sample(halves({1 + i % 3, 6}, i), 2 + i % 2), rand({1}));
  }
}

TENON_PROGRAM(AStreamWithItsContext, 8) {
  // Streaming convolution with context.
  Tensor w = row({0.5, -1, 2}).reshape({1, 1, 3}), context = zeros({1, 1, 2});
  auto f = run.compile([&](const Tensor& chunk) {
    Tensor x = cat({context, chunk}, 2);
    context = x.slice(2, int64_t(x.size(2)) - 2, int64_t(x.size(2)));
    return conv1d(x, w);
  });
  for (int n : {4, 3, 1, 2, 1, 5}) run.log(f(halves({1, 1, n}, n)), context);
}

// A ring whose oldest entries are read through views made in another callable.
TENON_PROGRAM(ARingReadThroughEarlierViews, 8) {
  std::deque<Tensor> views;
  Tensor ring = zeros({4, 2});
  auto push = run.compile([&](const Tensor& x, int64_t at) {
    Tensor slot = ring[at % 4];
    slot.copy_(x);
    views.push_back(slot);
    if (views.size() > 3) views.pop_front();
    return slot.sum();
  });
  auto read = run.compile([&](double k) {
    Tensor s = zeros({2});
    for (auto& v : views) s = s * 0.5 + v * k;
    views.back().mul_(2.0);
    return s;
  });
  for (int i = 0; i < 8; ++i) {
    run.log(push(halves({2}, i), i));
    run.log(read(i % 2 ? 1.0 : 0.5), ring);
    if (i == 4) ring = ring.clone();
  }
}

TENON_PROGRAM(AWindowMovesOn, 6) {
  // copy_ among overlapping slices; shifts of a window in place.
  Tensor window = zeros({6});
  auto f = run.compile([&](const Tensor& x) {
    int64_t n = x.size(0);
    window.slice(0, 0, 6 - n).copy_(window.slice(0, n, 6).clone());
    window.slice(0, 6 - n, 6).copy_(x);
    return window.unfold(0, 3, 1).mean(1);
  });
  for (int n : {1, 2, 3, 1, 6, 4}) run.log((f(halves({n}, n)) * 64).round(), window);
}

}  // namespace
}  // namespace tenon::programs
