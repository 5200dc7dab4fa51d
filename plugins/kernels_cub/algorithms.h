// Algorithms over device memory, by CUB: what the .cu file has and the rows use. Everything is
// enqueued on a stream of the device that is the calling thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace kernels_cub {

/// A CUstream.
using Stream = void*;

/// What the runtime said of a call.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Memory of the device for one call; it lives as long as this, in the order of the stream.
class Scratch {
 public:
  virtual ~Scratch() = default;
  virtual void* bytes(size_t n) = 0;
  template <class T>
  T* of(int64_t n) {
    return static_cast<T*>(bytes(static_cast<size_t>(n) * sizeof(T)));
  }
};

/// How the bits of an element compare.
enum class Form : uint8_t { floating, with_sign, without_sign };

/// Contiguous elements.
struct Elements {
  const void* data;
  int64_t n;
  int32_t itemsize;  ///< 1, 2, 4 or 8
  Form form;
  uint64_t infinity;  ///< the bits of +inf, of floating ones
};

/// The order of each row of `n / rows` elements: `positions` gets, row by row, which element comes
/// first, second, ... Equal ones stay in their order, NaN is above all.
void sort_rows(const Elements& x, int64_t rows, bool descending, int64_t* positions,
               Scratch& scratch, Stream stream);
/// to[r][i] = from[r][positions[r][i]] for i < `kept` of each row; `where` gets the positions, too.
void take_from_rows(const Elements& from, int64_t rows, int64_t kept, const int64_t* positions,
                    void* to, int64_t* where, Stream stream);

/// `positions` gets the places of elements that are not zero, `count` how many there are; both on
/// the device, room for all.
void find_nonzero(const Elements& x, int64_t* positions, int64_t* count, Scratch& scratch,
                  Stream stream);
/// Column by column: the coordinates of places in a tensor of these sizes.
void write_coordinates(const int64_t* positions, int64_t count, const int64_t* sizes,
                       int32_t n_dims, int64_t* to, Stream stream);
/// to[i] = from[positions[i]].
void take(const Elements& from, const int64_t* positions, int64_t count, void* to, Stream stream);
/// to[positions[i]] = from[i].
void put(const Elements& from, const int64_t* positions, int64_t count, void* to, Stream stream);

/// A number of the device; waits for the stream.
int64_t read_number(const int64_t* number, Stream stream);

/// Runs of equal elements in sorted order, NaN by itself: `ranks[i]` is the number of the run that
/// the i-th in order belongs to, counted from 1.
void number_runs(const Elements& x, const int64_t* order, int64_t* ranks, Scratch& scratch,
                 Stream stream);
/// The first place in order of each run.
void find_heads(const int64_t* ranks, int64_t n, int64_t* heads, Stream stream);
/// inverse[order[i]] = ranks[i] - 1.
void write_inverse(const int64_t* order, const int64_t* ranks, int64_t n, int64_t* inverse,
                   Stream stream);
/// counts[r] = heads[r + 1] - heads[r].
void write_counts(const int64_t* heads, int64_t runs, int64_t n, int64_t* counts, Stream stream);
/// to[r] = order[heads[r]].
void compose(const int64_t* order, const int64_t* heads, int64_t runs, int64_t* to, Stream stream);

}  // namespace kernels_cub
