// Attention of a tile of queries with all keys, block by block of keys.
//
// Problem: the scores of all queries against all keys are the largest tensor of a transformer, are
// read three times and are not wanted.
//
// Method: lanes are queries. The tile's queries are packed as columns once, so that the scores of a
// block of keys, transposed, are a product whose left side is the keys as they lie; maximum and sum
// over the keys then run down the columns with no sum across lanes; and the product with the values
// reads the powers by columns and the values as they lie. From block to block the maximum grows:
// what was summed before is scaled down by the power of the difference.
//
// Cost: that of the two products and of one exponential for each score; memory for one block.
// Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al.,
// FlashAttention, 2022.
#pragma once

#include "product_kernel.h"
#include "vector_exp.h"

namespace microkernel::MICROKERNEL_LEVEL {

constexpr int64_t most_queries = panel_vectors * lane_count;

/// What has been seen of the keys, by query.
struct SoftmaxState {
  Vector top[panel_vectors], sum[panel_vectors];
};

static void pack_queries(const AttentionTile& t, int64_t width, float* packed) {
  for (int64_t c = 0; c < t.channels; ++c)
    for (int64_t q = 0; q < width; ++q)
      packed[c * width + q] = q < t.queries ? t.query[q * t.query_row + c] * t.scale : 0.0f;
}

/// Adds the mask to scores[key][query].
static void mask_scores(const AttentionTile& t, int64_t first, int64_t keys, int64_t width,
                        float* scores) {
  float lowest = -__builtin_inff();
  for (int64_t k = 0; k < keys; ++k) {
    int64_t key = first + k;
    float* row = scores + k * width;
    if (t.mask || t.allowed)
      for (int64_t q = 0; q < t.queries; ++q) {
        int64_t at = q * t.mask_row + key * t.mask_column;
        // By addition: a score that is not a number stays one where it is masked, as in PyTorch.
        row[q] += t.mask ? t.mask[at] : t.allowed[at] ? 0.0f : lowest;
      }
    if (!t.is_causal) continue;
    int64_t hidden = key - t.first_query;  // queries before the key
    for (int64_t q = 0; q < hidden && q < t.queries; ++q) row[q] = lowest;
  }
}

/// Scores to powers; what the sums and results so far are to be multiplied by.
template <int V>
static void exponentiate(float* scores, int64_t keys, SoftmaxState& state, Vector* shrink) {
  constexpr int64_t width = V * lane_count;
  Vector top[V], sum[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) top[v] = state.top[v];
  for (int64_t k = 0; k < keys; ++k)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      Vector s = load(scores + k * width + v * lane_count);
      top[v] = s > top[v] ? s : top[v];
    }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    Vector lowest = repeat(-__builtin_inff());
    Vector base = top[v] == lowest ? Vector{} : top[v];  // no key yet: all powers are 0
    shrink[v] = exp_of_negative(state.top[v] - base);
    state.top[v] = top[v];
    top[v] = base;
    sum[v] = state.sum[v] * shrink[v];
  }
  for (int64_t k = 0; k < keys; ++k)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* place = scores + k * width + v * lane_count;
      Vector power = exp_of_negative(load(place) - top[v]);
      store(place, power);
      sum[v] += power;
    }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) state.sum[v] = sum[v];
}

static void exponentiate(int64_t vectors, float* scores, int64_t keys, SoftmaxState& state,
                         Vector* shrink) {
  switch (vectors) {
    case 1:
      return exponentiate<1>(scores, keys, state, shrink);
    case 2:
      return exponentiate<2>(scores, keys, state, shrink);
#if defined(__AVX512F__)
    case 3:
      return exponentiate<3>(scores, keys, state, shrink);
    case 4:
      return exponentiate<4>(scores, keys, state, shrink);
#endif
  }
  __builtin_unreachable();
}

/// Each row of the result times its factor.
static void scale_rows(const AttentionTile& t, const float* factors) {
  for (int64_t q = 0; q < t.queries; ++q) {
    float* row = t.result + q * t.result_row;
    for (int64_t j = 0; j < t.value_channels; j += lane_count) {
      int64_t n = t.value_channels - j;
      store(row + j, load(row + j, n) * factors[q], n);
    }
  }
}

/// result += powers[key][query]^T x value.
static void add_values(const AttentionTile& t, const float* powers, int64_t width,
                       const float* value, int64_t value_row, int64_t keys, bool continues) {
  for (int64_t j = 0; j < t.value_channels; j += most_queries) {
    int64_t columns = t.value_channels - j < most_queries ? t.value_channels - j : most_queries;
    int64_t vectors = (columns + lane_count - 1) / lane_count;
    int64_t tiles = (t.queries + tile_rows(vectors) - 1) / tile_rows(vectors);
    for (int64_t i = 0; i < tiles; ++i) {
      int64_t q = t.queries * i / tiles, end = t.queries * (i + 1) / tiles;
      float* result = t.result + q * t.result_row + j;
      Tile<Plain<float>> tile{keys,
                              columns,
                              powers + q,
                              1,
                              width,
                              value + j,
                              value_row,
                              continues ? result : nullptr,
                              t.result_row,
                              result,
                              t.result_row,
                              value,
                              0};
      tile_function<Plain<float>>(end - q, vectors)(tile);
    }
  }
}

static void attend(const AttentionTile& t) {
  int64_t vectors = (t.queries + lane_count - 1) / lane_count, width = vectors * lane_count;
  float* queries = t.scratch;
  float* scores = queries + t.channels * most_queries;
  float* factors = scores + key_block * most_queries;
  float* values = factors + 8 * most_queries;
  // Whole vectors of a row of values must not reach behind it.
  bool copies = t.value_channels % lane_count != 0;
  int64_t value_row = (t.value_channels + lane_count - 1) / lane_count * lane_count;
  pack_queries(t, width, queries);
  SoftmaxState state;
  for (int v = 0; v < panel_vectors; ++v) {
    state.top[v] = repeat(-__builtin_inff());
    state.sum[v] = Vector{};
  }
  for (int64_t first = 0; first == 0 || first < t.keys; first += key_block) {
    int64_t keys = t.keys - first < key_block ? t.keys - first : key_block;
    multiply<Plain<float>>({0, keys, t.channels, width, 0, 1, 1, t.key + first * t.key_row,
                            t.key_row, 1, queries, 0, nullptr, scores, false, 0, width, nullptr,
                            0});
    if (t.mask || t.allowed || t.is_causal) mask_scores(t, first, keys, width, scores);
    Vector shrink[panel_vectors] = {};
    exponentiate(vectors, scores, keys, state, shrink);
    if (first > 0) {
      for (int v = 0; v < vectors; ++v) store(factors + v * lane_count, shrink[v]);
      scale_rows(t, factors);
    }
    const float* value = t.value + first * t.value_row;
    if (copies)
      for (int64_t k = 0; k < keys; ++k)
        for (int64_t j = 0; j < value_row; ++j)
          values[k * value_row + j] = j < t.value_channels ? value[k * t.value_row + j] : 0.0f;
    add_values(t, scores, width, copies ? values : value, copies ? value_row : t.value_row, keys,
               first > 0);
  }
  for (int v = 0; v < vectors; ++v)
    store(factors + v * lane_count, state.sum[v] == 0 ? repeat(1) : 1 / state.sum[v]);
  scale_rows(t, factors);
}

}  // namespace microkernel::MICROKERNEL_LEVEL
