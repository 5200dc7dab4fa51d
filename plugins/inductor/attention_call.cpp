// Attention in tiles of queries: scores, softmax, values, while the scores are in the cache.
//
// Problem: the scores of all queries against all keys are the largest tensor of a transformer, are
// read three times, and are not wanted.
//
// Method: for each head a tile of queries meets all keys that it may see (under a causal mask those
// before its end): one product into memory of the worker, a generated kernel for scale, mask and
// softmax in place, one product with the values into the result. A tile of 64 x 1024 scores takes
// 256 KiB, so it stays in the second-level cache. Heads and tiles are independent. Cost: that of
// the two products; the softmax is a few per cent of it.
#include "library_calls.h"
#include "placed.h"

#include <dnn/prepared.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <cmath>

namespace inductor {

using loopir::Attention;
using loopir::Program;

namespace {

constexpr int64_t most_queries = 64;

float* tile_memory(size_t floats) {
  thread_local Memory memory;
  if (memory.size() < floats * sizeof(float)) memory = Memory(floats * sizeof(float));
  return reinterpret_cast<float*>(memory.data());
}

class AttentionCall final : public LibraryCall {
 public:
  AttentionCall(const Program& p, const Attention& a, AttentionSoftmax softmax)
      : program_(p), attention_(a), softmax_(std::move(softmax)) {}

  Memory pack(std::span<void* const>, std::span<const int64_t>) const override { return Memory(); }
  bool is_fast(std::span<const int64_t>) const override { return true; }

  void run(std::span<void* const> pointers, std::span<const int64_t> symbols,
           const void*) const override {
    auto kept = plans_.get(symbols, [&] { return make_plan(symbols); });
    const Plan& plan = *kept;
    const auto& sizes = plan.query.sizes;
    int64_t tiles = int64_t(plan.tiles.size()), heads = sizes[0] * sizes[1];
    if (heads == 0) return;
    tenon::plugin::parallel_chunks(heads * tiles, [&](int64_t chunk, int32_t) {
      int64_t head = chunk / tiles;
      run_tile(plan, plan.tiles[size_t(chunk % tiles)], head / sizes[1], head % sizes[1], pointers,
               symbols);
    });
  }

 private:
  struct Tile {
    int64_t first, queries, keys;
    std::shared_ptr<const onednn::PreparedBatchedProduct> scores, values;
  };
  struct Plan {
    Placed query, key, value, result;
    std::optional<Placed> mask;
    std::vector<Tile> tiles;
  };

  Plan make_plan(std::span<const int64_t> symbols) const {
    Plan plan{{program_, attention_.query, symbols},
              {program_, attention_.key, symbols},
              {program_, attention_.value, symbols},
              {program_, attention_.result, symbols},
              std::nullopt,
              {}};
    if (attention_.mask) plan.mask.emplace(program_, *attention_.mask, symbols);
    int64_t m = plan.query.sizes[2], n = plan.key.sizes[2];
    std::map<std::pair<int64_t, int64_t>, const Tile*> made;
    plan.tiles.reserve(size_t((m + most_queries - 1) / most_queries));
    for (int64_t at = 0; at < m; at += most_queries) {
      Tile tile{at, std::min(most_queries, m - at), n, nullptr, nullptr};
      if (attention_.is_causal) tile.keys = std::min(n, at + tile.queries);
      if (const Tile*& same = made[{tile.queries, tile.keys}]) {
        tile.scores = same->scores;
        tile.values = same->values;
      } else {
        prepare_tile(plan, tile);
      }
      plan.tiles.push_back(std::move(tile));
      made[{plan.tiles.back().queries, plan.tiles.back().keys}] = &plan.tiles.back();
    }
    return plan;
  }

  void prepare_tile(const Plan& plan, Tile& tile) const {
    int64_t d = plan.query.sizes[3], e = plan.value.sizes[3];
    auto row = [](const Placed& v, int64_t rows, int64_t columns) {
      return rows == 1 ? columns : v.strides[2];
    };
    onednn::BatchedProductShape scores{TN_F32, {}, tile.queries, d, tile.keys, {}, {}};
    scores.source_strides = {row(plan.query, tile.queries, d), 1};
    scores.other_strides = {1, row(plan.key, tile.keys, d)};
    scores.alpha = float(attention_.scale);
    onednn::BatchedProductShape values{TN_F32, {}, tile.queries, tile.keys, e, {}, {}};
    values.source_strides = {tile.keys, 1};
    values.other_strides = {row(plan.value, tile.keys, e), 1};
    values.result_strides = {plan.result.strides[2], 1};
    tile.scores = onednn::PreparedBatchedProduct::make(scores, 1);
    tile.values = onednn::PreparedBatchedProduct::make(values, 1);
  }

  static float* head_of(const Placed& v, std::span<void* const> pointers, int64_t batch,
                        int64_t head) {
    return v.data(pointers) + batch * v.strides[0] + head * v.strides[1];
  }

  void run_tile(const Plan& plan, const Tile& tile, int64_t batch, int64_t head,
                std::span<void* const> pointers, std::span<const int64_t> symbols) const {
    float* scores = tile_memory(size_t(tile.queries * tile.keys) + 64);
    const float* q =
        head_of(plan.query, pointers, batch, head) + tile.first * plan.query.strides[2];
    const float* k = head_of(plan.key, pointers, batch, head);
    const float* v = head_of(plan.value, pointers, batch, head);
    float* result =
        head_of(plan.result, pointers, batch, head) + tile.first * plan.result.strides[2];
    if (tile.scores)
      tile.scores->run(0, q, k, scores);
    else
      multiply(tile.queries, plan.query.sizes[3], tile.keys, q, {plan.query.strides[2], 1}, k,
               {1, plan.key.strides[2]}, scores, tile.keys, attention_.scale);
    run_softmax(plan, tile, batch, head, scores, pointers, symbols);
    if (tile.values)
      tile.values->run(0, scores, v, result);
    else
      multiply(tile.queries, tile.keys, plan.value.sizes[3], scores, {tile.keys, 1}, v,
               {plan.value.strides[2], 1}, result, plan.result.strides[2], 1);
  }

  // The kernel counts rows of the whole head: its scores begin before the tile.
  void run_softmax(const Plan& plan, const Tile& tile, int64_t batch, int64_t head, float* scores,
                   std::span<void* const> pointers, std::span<const int64_t> symbols) const {
    std::vector<void*> own;
    for (loopir::Id b : softmax_.interface.buffers) {
      if (b == softmax_.scores || b == softmax_.powers || b == softmax_.result) {
        own.push_back(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(scores) -
                                              uintptr_t(tile.first * tile.keys) * sizeof(float)));
        continue;
      }
      int64_t offset =
          plan.mask->offset + batch * plan.mask->strides[0] + head * plan.mask->strides[1];
      own.push_back(static_cast<std::byte*>(pointers[b]) +
                    offset * loopir::item_size(attention_.mask_dtype));
    }
    std::vector<int64_t> with_keys(symbols.begin(), symbols.end());
    with_keys.push_back(tile.keys);
    std::vector<std::byte> rows(size_t(softmax_.interface.scratch_bytes));
    softmax_.run(own.data(), with_keys.data(), tile.first, tile.first + tile.queries, rows.data());
  }

  static void multiply(int64_t m, int64_t k, int64_t n, const float* a,
                       std::pair<int64_t, int64_t> as, const float* b,
                       std::pair<int64_t, int64_t> bs, float* c, int64_t row, double scale) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < k; ++x)
          sum += double(a[i * as.first + x * as.second]) * double(b[x * bs.first + j * bs.second]);
        c[i * row + j] = float(sum * scale);
      }
  }

  const Program& program_;
  const Attention& attention_;
  AttentionSoftmax softmax_;
  Plans<Plan> plans_;
};

}  // namespace

std::unique_ptr<LibraryCall> prepare(const Program& program, const Attention& attention,
                                     AttentionSoftmax softmax) {
  return std::make_unique<AttentionCall>(program, attention, std::move(softmax));
}

}  // namespace inductor
