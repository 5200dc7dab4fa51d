// Plain copies between strided operands, with or without a change of dtype.
//
// Problem: clone, contiguous and copy_ move much memory in few shapes: dense to dense, rows to
//   rows, and permuted (a transpose at heart). A loop that is good for one is several times slow
//   for another.
// Method: the collapsed grid decides. Of equal dtype: one dense run is a memcpy; rows that are
//   dense on both sides are a memcpy each; when the source is dense along another dimension than
//   the target, that pair of dimensions is done in tiles of 32 x 32 elements, so that each cache
//   line of both is loaded once. What is left is copied element by element along the inner
//   dimension. With different dtypes a bound program without steps converts by blocks.
// Cost: bound by memory; a transpose of 1000 x 1000 f32 takes about four times its memcpy.
#include "core/kernels/pointwise_loop.h"
#include "core/tensor/element_copy.h"
#include "core/tensor/stored_types.h"
#include "core/tensor/stride_grid.h"
#include "core/threads/thread_pool.h"

#include <emmintrin.h>

#include <algorithm>

namespace tenon {
namespace {

constexpr int64_t tile = 32, outer_tile = 256;
constexpr int64_t parallel_bytes = 256 * 1024;

struct Pair {
  char* to;
  const char* from;
};

void copy_dense(Pair at, int64_t size) {
  int64_t n_chunks = (size + parallel_bytes - 1) / parallel_bytes;
  if (n_chunks <= 1) {
    std::memcpy(at.to, at.from, static_cast<size_t>(size));
    return;
  }
  parallel_chunks(n_chunks, [&](int64_t chunk, int) {
    int64_t first = chunk * parallel_bytes;
    std::memcpy(at.to + first, at.from + first,
                static_cast<size_t>(std::min(parallel_bytes, size - first)));
  });
}

// Strides in bytes of target and source along one dimension.
struct Step {
  int64_t size, to, from;
};

// As memcpy, which takes ten times as long where the target is a little ahead of the source in its
// page: it then moves byte by byte, each of which waits for the store before.
void copy_bytes(Pair at, int64_t n) {
  constexpr int64_t least = 1024, step = 64, page = 4096;
  auto ahead = static_cast<uint64_t>(at.to - at.from) % page;
  int64_t done = 0;
  if (n >= least && ahead != 0 && ahead < 4 * step)
    for (; done + step <= n; done += step) {
      __m128i part[4];
      for (int64_t k = 0; k < 4; ++k)
        part[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at.from + done) + k);
      for (int64_t k = 0; k < 4; ++k)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(at.to + done) + k, part[k]);
    }
  std::memcpy(at.to + done, at.from + done, static_cast<size_t>(n - done));
}

// The last element first: `from` is where the first of the target comes from.
template <class T>
void copy_reversed(Pair at, int64_t n) {
  auto* to = reinterpret_cast<T*>(at.to);
  const auto* from = reinterpret_cast<const T*>(at.from);
  for (int64_t i = 0; i < n; ++i) to[i] = from[-i];
}

void copy_row(Pair at, const Step& row, int64_t itemsize) {
  if (row.to == itemsize && row.from == itemsize) return copy_bytes(at, row.size * itemsize);
  with_element(itemsize, [&]<class T>(T) {
    if (row.to == itemsize && row.from == -itemsize) return copy_reversed<T>(at, row.size);
    for (int64_t i = 0; i < row.size; ++i)
      *reinterpret_cast<T*>(at.to + i * row.to) =
          *reinterpret_cast<const T*>(at.from + i * row.from);
  });
}

// In what follows `a` is the dimension along which the target is dense, `b` that of the source.
template <class T>
void copy_tile(Pair at, const Step& a, const Step& b) {
  for (int64_t j = 0; j < b.size; ++j)
    for (int64_t i = 0; i < a.size; ++i)
      *reinterpret_cast<T*>(at.to + i * a.to + j * b.to) =
          *reinterpret_cast<const T*>(at.from + i * a.from + j * b.from);
}

// 4 x 4 elements of 4 bytes in registers.
void transpose_4x4(Pair at, const Step& a, const Step& b) {
  __m128 rows[4];
  for (int64_t i = 0; i < 4; ++i)
    rows[i] = _mm_loadu_ps(reinterpret_cast<const float*>(at.from + i * a.from));
  _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
  for (int64_t j = 0; j < 4; ++j)
    _mm_storeu_ps(reinterpret_cast<float*>(at.to + j * b.to), rows[j]);
}

// 2 x 2 elements of 8 bytes.
void transpose_2x2(Pair at, const Step& a, const Step& b) {
  __m128d first = _mm_loadu_pd(reinterpret_cast<const double*>(at.from));
  __m128d second = _mm_loadu_pd(reinterpret_cast<const double*>(at.from + a.from));
  _mm_storeu_pd(reinterpret_cast<double*>(at.to), _mm_unpacklo_pd(first, second));
  _mm_storeu_pd(reinterpret_cast<double*>(at.to + b.to), _mm_unpackhi_pd(first, second));
}

// By squares: a quarter of the instructions of the plain loop, which is what limits it.
template <class T>
void copy_tile_by_squares(Pair at, const Step& a, const Step& b) {
  constexpr int64_t edge = 16 / sizeof(T);
  int64_t a_whole = a.size / edge * edge, b_whole = b.size / edge * edge;
  auto corner = [&](int64_t i, int64_t j) {
    return Pair{at.to + i * a.to + j * b.to, at.from + i * a.from + j * b.from};
  };
  for (int64_t j = 0; j < b_whole; j += edge)
    for (int64_t i = 0; i < a_whole; i += edge)
      (edge == 4 ? transpose_4x4 : transpose_2x2)(corner(i, j), a, b);
  copy_tile<T>(corner(a_whole, 0), {a.size - a_whole, a.to, a.from}, b);
  copy_tile<T>(corner(0, b_whole), {a_whole, a.to, a.from}, {b.size - b_whole, b.to, b.from});
}

template <class Body>
void for_tiles(Pair at, const Step& a, const Step& b, int64_t edge, const Body& body) {
  for (int64_t j = 0; j < b.size; j += edge)
    for (int64_t i = 0; i < a.size; i += edge)
      body(Pair{at.to + i * a.to + j * b.to, at.from + i * a.from + j * b.from},
           Step{std::min(edge, a.size - i), a.to, a.from},
           Step{std::min(edge, b.size - j), b.to, b.from});
}

// Tiles for the first cache in tiles whose pages the TLB holds.
void copy_tiles(Pair at, const Step& a, const Step& b, int64_t itemsize) {
  with_element(itemsize, [&]<class T>(T) {
    auto copy = &copy_tile<T>;
    if constexpr (sizeof(T) == 4 || sizeof(T) == 8)
      if (a.to == itemsize && b.from == itemsize) copy = &copy_tile_by_squares<T>;
    for_tiles(at, a, b, outer_tile, [&](Pair outer, const Step& outer_a, const Step& outer_b) {
      for_tiles(outer, outer_a, outer_b, tile, copy);
    });
  });
}

class GridCopy {
 public:
  GridCopy(const Operand& dst, const Operand& src, const StrideGrid& grid)
      : to_(static_cast<char*>(dst.data)),
        from_(static_cast<const char*>(src.data)),
        itemsize_(itemsize(dst.dtype)),
        grid_(grid) {
    inner_ = step(0);
    for (size_t d = 1; d < grid.n_dims(); ++d)
      if (inner_.from != itemsize_ && step(d).from == itemsize_) tiled_ = d;
    rows_ = grid.n_rows();
    if (tiled_ == 0) return;
    rows_ /= grid.sizes[tiled_];
    parts_ = (grid.sizes[tiled_] + outer_tile - 1) / outer_tile;
  }

  void run() const {
    int64_t part_bytes = itemsize_ * inner_.size * (tiled_ != 0 ? outer_tile : 1);
    int64_t grain = std::max<int64_t>(1, parallel_bytes / part_bytes);
    int64_t n_parts = rows_ * parts_, n_chunks = (n_parts + grain - 1) / grain;
    if (n_chunks <= 1) return copy_parts(0, n_parts);
    parallel_chunks(n_chunks, [&](int64_t chunk, int) {
      copy_parts(chunk * grain, std::min(n_parts, (chunk + 1) * grain));
    });
  }

 private:
  Step step(size_t dim) const {
    return {grid_.sizes[dim], grid_.strides_of(dim)[0], grid_.strides_of(dim)[1]};
  }

  // Rows are counted over the dimensions that are neither inner nor tiled.
  Pair row_at(int64_t row) const {
    Pair at{to_, from_};
    for (size_t d = 1; d < grid_.n_dims(); ++d) {
      if (d == tiled_) continue;
      Step s = step(d);
      at.to += row % s.size * s.to;
      at.from += row % s.size * s.from;
      row /= s.size;
    }
    return at;
  }

  // A part is a row, or with tiles a stretch of the tiled dimension of a row.
  void copy_parts(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      Pair at = row_at(i / parts_);
      if (tiled_ == 0) {
        copy_row(at, inner_, itemsize_);
        continue;
      }
      Step part = step(tiled_);
      int64_t first = i % parts_ * outer_tile;
      part.size = std::min(outer_tile, part.size - first);
      copy_tiles({at.to + first * part.to, at.from + first * part.from}, inner_, part, itemsize_);
    }
  }

  char* to_;
  const char* from_;
  int64_t itemsize_;
  const StrideGrid& grid_;
  Step inner_{};
  size_t tiled_ = 0;  // 0: none
  int64_t rows_ = 0, parts_ = 1;
};

void copy_same_type(const Operand& dst, const Operand& src, std::span<const int64_t> sizes,
                    int64_t n) {
  if (src.strides != nullptr && is_dense(dst, sizes) && is_dense(src, sizes))
    return copy_dense({static_cast<char*>(dst.data), static_cast<const char*>(src.data)},
                      n * itemsize(dst.dtype));
  const Operand* operands[] = {&dst, &src};
  StrideGrid grid = make_grid(operands, sizes);
  if (grid.n_dims() == 0) {
    std::memcpy(dst.data, src.data, static_cast<size_t>(itemsize(dst.dtype)));
    return;
  }
  const int64_t* inner = grid.strides_of(0);
  if (grid.n_dims() == 1 && inner[0] == itemsize(dst.dtype) && inner[1] == inner[0])
    return copy_dense({static_cast<char*>(dst.data), static_cast<const char*>(src.data)},
                      n * inner[0]);
  GridCopy(dst, src, grid).run();
}

BoundProgram identity_of(Dtype dtype) {
  BoundProgram plan;
  plan.input_dtypes = {dtype};
  plan.outputs = {{0, dtype}};
  return plan;
}

}  // namespace

void copy_strided(const Operand& dst, const Operand& src, std::span<const int64_t> sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  if (n == 0) return;
  if (dst.dtype == src.dtype) return copy_same_type(dst, src, sizes, n);
  if (!is_computing(dst.dtype) || !is_computing(src.dtype))
    return convert_stored_types(dst, src, sizes);
  run_pointwise(identity_of(src.dtype), {&dst, 1}, {&src, 1}, sizes);
}

}  // namespace tenon
