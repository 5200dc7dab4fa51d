// What the levels of vectors have in common: one table of kernels for each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace microkernel {

/// What is done to an element of a result, in order; `add` takes the operand's element that lies
/// where the result's does.
struct Finish {
  enum class Kind : uint8_t { relu, hardswish, hardsigmoid, scale, add };
  Kind kind;
  const void* operand = nullptr;  // of the result's numbers
  double factor = 1;              // of scale
};

/// result[m, n] = left[m, k] x right[k, n]: rows [row, row_end) of panels [panel, panel_end).
/// Addresses are those of row 0, and of what the kernel multiplies.
struct ProductBlock {
  int64_t row, row_end, k, n;
  int64_t panel, panel_end, panels;  // panels: of all n columns
  const void* left;
  int64_t left_row, left_step;  // from a step of k to the next
  const void* right;
  int64_t right_row;  // 0: panels; else n is whole vectors
  const void* bias;   // or null
  void* result;
  bool is_rounded;  // the result is of the operands' numbers, and those are not the sums'
  int64_t place;    // of row 0 in the result and in the operands of `finish`
  int64_t result_row;
  const Finish* finish;
  size_t n_finish;

  /// Columns before a panel: whole vectors, shared out evenly, since narrow panels are slow.
  constexpr int64_t column(int64_t of, int64_t lanes) const {
    int64_t at = (n + lanes - 1) / lanes * of / panels * lanes;
    return at < n ? at : n;
  }
};

/// One panel: packed[k][width] = right[k, columns], 0 behind the columns.
struct PackBlock {
  int64_t k, columns, width;
  const void* right;  // the panel's first column
  int64_t k_stride, n_stride;
  void* packed;
};

/// Keys whose scores are held at a time.
constexpr int64_t key_block = 256;

/// One head's queries [first_query, first_query + queries) and all the keys that they may see.
struct AttentionTile {
  int64_t queries, keys, channels, value_channels;
  const float* query;  // the first one of the tile
  int64_t query_row;
  const float* key;
  int64_t key_row;
  const float* value;
  int64_t value_row;
  float* result;
  int64_t result_row;
  float scale;
  const float* mask;       // added, or null
  const uint8_t* allowed;  // not 0 where a query may see a key, or null
  int64_t mask_row, mask_column;
  bool is_causal;  // query i sees keys up to i
  int64_t first_query;
  float* scratch;
};

/// Rows of some units of a recurrent layer; steps are in elements.
struct GateBlock {
  int64_t rows, units, size;  // size: of the layer, from gate to gate
  float* sums;                // [rows][vectors][gates][a vector]: what the state gives; spoilt
  int64_t sums_row;
  const float* input;
  int64_t input_row;
  const float* bias;  // or null
  const float* state;
  int64_t state_row;
  const float* cell;  // null where there is none
  int64_t cell_row;
  float* next_state;
  int64_t next_state_row;
  float* next_cell;
  int64_t next_cell_row;
};

/// Products of single numbers for a tile of 4 x 4 results; see winograd_kernel.h.
constexpr int winograd_parts = 46;
/// Floats from one matrix of so many to the next: an odd number of lines of the cache, so that a
/// tile's parts don't meet in few of its sets.
static constexpr int64_t winograd_step(int64_t floats) { return (floats + 15) / 32 * 32 + 16; }

/// Tiles [first, first + tiles) of 4 x 4 results of one image, output channels of panels
/// [panel, panel_end).
struct WinogradBlock {
  int64_t first, tiles, tiles_across;
  int64_t channels, height, width, out_channels, out_height, out_width;
  int64_t padding[2];
  int64_t panel, panel_end, panels;
  const float* source;  // of the image
  int64_t source_row, source_pixel;
  const float* packed;  // winograd_parts matrices
  int64_t packed_size;  // of one
  const float* bias;    // or null
  float* result;
  int64_t place;  // of the image in the result and in the operands of `finish`
  int64_t result_row, result_pixel;
  const Finish* finish;
  size_t n_finish;
  float* scratch;  // winograd_parts * tiles * (channels + out_channels)
};

/// Rows that sum_directly() has at most, on any level.
constexpr int64_t most_direct_rows = 6;
/// n products of each row: rows[i][k * row_step] * right[k * right_step + column].
struct DirectRun {
  const double* rows[most_direct_rows];
  const double* right;
  int64_t n;
};
/// sums[row][whole vectors of columns] of all runs, in f64. `is_padded`: right sides are whole
/// vectors too.
struct DirectBlock {
  int64_t n_runs;
  const DirectRun* runs;
  int64_t row_step, right_step, columns;
  bool is_padded;
  double* sums;
};

/// Products of one kind of numbers.
struct ProductKernels {
  int64_t panel;  // columns of the widest panel
  int64_t lanes;  // panels are whole vectors wide
  void (*pack)(const PackBlock& block);
  void (*multiply)(const ProductBlock& block);
};

struct Kernels {
  ProductKernels f32, f64;
  const ProductKernels* bf16;  // null: this level has none
  void (*attend)(const AttentionTile& tile);
  void (*convolve_winograd)(const WinogradBlock& block);
  int64_t direct_rows;
  void (*sum_directly)(const DirectBlock& block);
  int64_t (*rows_of_tile)(int64_t vectors);  // of a product, in panels of so many vectors
  void (*gates[4])(const GateBlock& block);  // by Cell
};

/// The last one is kernels_avx512 with products of bf16.
extern const Kernels kernels_base, kernels_avx2, kernels_avx512, kernels_avx512_bf16;

/// Those of this CPU.
const Kernels& kernels();
/// Others, in all that is packed and run from now on; for tests.
void use(const Kernels& kernels);

}  // namespace microkernel
