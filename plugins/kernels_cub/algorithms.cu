// Sorting, selecting and scanning on NVIDIA GPUs by CUB.
//
// Problem: order, choose and group elements of many types. Model: elements are compared by unsigned
// words of their size: floats with their bits turned so that words compare as the numbers do, NaN
// above all and -0 as 0; signed numbers with the sign bit flipped; for a descending order all bits
// flipped. So CUB is instantiated for four widths of key with positions as payload, and values are
// gathered by position, which keeps their bits. Method: radix sorts, which are stable: one for each
// long row, one of segments for short ones. Cost: a radix sort moves each key and position once every 8 bits.
#include "algorithms.h"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>

#include <string>

namespace kernels_cub {

namespace {

constexpr int block = 256;
constexpr int most_dims = 32;

void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // what was told need not be found again
  throw Failure(std::string(call) + ": " + cudaGetErrorString(result));
}

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }

unsigned blocks_for(int64_t n) { return static_cast<unsigned>((n + block - 1) / block); }

__device__ int64_t index_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// Calls f(i) for i < n, a thread each.
template <class F>
__global__ void each(int64_t n, F f) {
  int64_t i = index_of_thread();
  if (i < n) f(i);
}
template <class F>
void launch(int64_t n, Stream stream, F f) {
  if (n == 0) return;
  each<<<blocks_for(n), block, 0, native(stream)>>>(n, f);
  check(cudaGetLastError(), "launching a kernel");
}

/// f<unsigned type of the size>().
template <class F>
void by_size(int32_t itemsize, F&& f) {
  switch (itemsize) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      throw Failure("elements of " + std::to_string(itemsize) + " bytes are not sorted");
  }
}

/// What CUB calls do twice: first they say how much memory they want.
template <class F>
void run_cub(Scratch& scratch, const char* call, F&& f) {
  size_t bytes = 0;
  check(f(nullptr, bytes), call);
  void* memory = scratch.bytes(bytes == 0 ? 1 : bytes);
  check(f(memory, bytes), call);
}

template <class U>
struct KeyOf {
  Form form;
  U infinity;
  bool descending;

  static constexpr U sign = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));

  __device__ bool is_nan(U bits) const {
    return form == Form::floating && static_cast<U>(bits & static_cast<U>(~sign)) > infinity;
  }
  __device__ U operator()(U bits) const {
    U key = bits;
    if (form == Form::with_sign) key = static_cast<U>(bits ^ sign);
    if (form == Form::floating) {
      if (bits == sign) bits = 0;
      key = static_cast<U>(bits & sign ? ~bits : bits | sign);
      if (is_nan(bits)) key = static_cast<U>(~U{0});
    }
    return descending ? static_cast<U>(~key) : key;
  }
};

template <class U>
KeyOf<U> keys_of(const Elements& x, bool descending) {
  return {x.form, static_cast<U>(x.infinity), descending};
}

template <class U>
void sort_rows_of(const Elements& x, int64_t rows, bool descending, int64_t* positions,
                  Scratch& scratch, Stream stream) {
  int64_t n = x.n, width = n / rows;
  const U* from = static_cast<const U*>(x.data);
  U *keys = scratch.of<U>(n), *sorted = scratch.of<U>(n);
  int64_t* places = scratch.of<int64_t>(n);
  KeyOf<U> key = keys_of<U>(x, descending);
  launch(n, stream, [=] __device__(int64_t i) {
    keys[i] = key(from[i]);
    places[i] = i % width;
  });
  constexpr int bits = sizeof(U) * 8;
  constexpr int64_t long_row = 1 << 15;  // a segment is one block's work
  if (rows == 1 || width >= long_row) {
    for (int64_t at = 0; at < n; at += width)
      run_cub(scratch, "cub::DeviceRadixSort", [&](void* memory, size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(memory, bytes, keys + at, sorted + at, places + at,
                                               positions + at, width, 0, bits, native(stream));
      });
    return;
  }
  int64_t* borders = scratch.of<int64_t>(rows + 1);
  launch(rows + 1, stream, [=] __device__(int64_t r) { borders[r] = r * width; });
  run_cub(scratch, "cub::DeviceSegmentedRadixSort", [&](void* memory, size_t& bytes) {
    return cub::DeviceSegmentedRadixSort::SortPairs(memory, bytes, keys, sorted, places, positions,
                                                    n, rows, borders, borders + 1, 0, bits,
                                                    native(stream));
  });
}

template <class U>
void take_from_rows_of(const Elements& from, int64_t rows, int64_t kept, const int64_t* positions,
                       void* to, int64_t* where, Stream stream) {
  int64_t width = from.n / rows;
  const U* source = static_cast<const U*>(from.data);
  U* target = static_cast<U*>(to);
  launch(rows * kept, stream, [=] __device__(int64_t i) {
    int64_t row = i / kept, at = positions[row * width + i % kept];
    target[i] = source[row * width + at];
    where[i] = at;
  });
}

template <class U>
void flag_nonzero(const Elements& x, uint8_t* flags, Stream stream) {
  const U* from = static_cast<const U*>(x.data);
  bool floating = x.form == Form::floating;
  launch(x.n, stream, [=] __device__(int64_t i) {
    U bits = floating ? static_cast<U>(from[i] << 1) : from[i];  // -0 is zero
    flags[i] = bits != 0;
  });
}

template <class U>
void take_of(const Elements& from, const int64_t* positions, int64_t count, void* to,
             Stream stream) {
  const U* source = static_cast<const U*>(from.data);
  U* target = static_cast<U*>(to);
  launch(count, stream, [=] __device__(int64_t i) { target[i] = source[positions[i]]; });
}

template <class U>
void put_of(const Elements& from, const int64_t* positions, int64_t count, void* to,
            Stream stream) {
  const U* source = static_cast<const U*>(from.data);
  U* target = static_cast<U*>(to);
  launch(count, stream, [=] __device__(int64_t i) { target[positions[i]] = source[i]; });
}

template <class U>
void flag_heads(const Elements& x, const int64_t* order, int64_t* heads, Stream stream) {
  const U* from = static_cast<const U*>(x.data);
  KeyOf<U> key = keys_of<U>(x, false);
  launch(x.n, stream, [=] __device__(int64_t i) {
    U bits = from[order[i]];
    bool is_first = i == 0 || key.is_nan(bits) || key(bits) != key(from[order[i - 1]]);
    heads[i] = is_first ? 1 : 0;
  });
}

struct Sizes {
  int64_t of[most_dims];
};

}  // namespace

void sort_rows(const Elements& x, int64_t rows, bool descending, int64_t* positions, Scratch& scratch,
               Stream stream) {
  if (x.n == 0) return;
  by_size(x.itemsize, [&](auto u) {
    sort_rows_of<decltype(u)>(x, rows, descending, positions, scratch, stream);
  });
}

void take_from_rows(const Elements& from, int64_t rows, int64_t kept, const int64_t* positions,
                    void* to, int64_t* where, Stream stream) {
  if (from.n == 0) return;
  by_size(from.itemsize, [&](auto u) {
    take_from_rows_of<decltype(u)>(from, rows, kept, positions, to, where, stream);
  });
}

void find_nonzero(const Elements& x, int64_t* positions, int64_t* count, Scratch& scratch,
                  Stream stream) {
  uint8_t* flags = scratch.of<uint8_t>(x.n);
  by_size(x.itemsize, [&](auto u) { flag_nonzero<decltype(u)>(x, flags, stream); });
  run_cub(scratch, "cub::DeviceSelect", [&](void* memory, size_t& bytes) {
    return cub::DeviceSelect::Flagged(memory, bytes, thrust::counting_iterator<int64_t>(0), flags,
                                      positions, count, x.n, native(stream));
  });
}

void write_coordinates(const int64_t* positions, int64_t count, const int64_t* sizes, int32_t n_dims,
                       int64_t* to, Stream stream) {
  if (n_dims > most_dims) throw Failure("a tensor of more than 32 dimensions");
  Sizes given{};
  for (int32_t d = 0; d < n_dims; ++d) given.of[d] = sizes[d];
  launch(count, stream, [=] __device__(int64_t i) {
    int64_t rest = positions[i];
    for (int32_t d = n_dims; d-- > 0;) {
      to[d * count + i] = rest % given.of[d];
      rest /= given.of[d];
    }
  });
}

void take(const Elements& from, const int64_t* positions, int64_t count, void* to, Stream stream) {
  by_size(from.itemsize,
          [&](auto u) { take_of<decltype(u)>(from, positions, count, to, stream); });
}

void put(const Elements& from, const int64_t* positions, int64_t count, void* to, Stream stream) {
  by_size(from.itemsize,
          [&](auto u) { put_of<decltype(u)>(from, positions, count, to, stream); });
}

int64_t read_number(const int64_t* number, Stream stream) {
  int64_t out = 0;
  check(cudaMemcpyAsync(&out, number, sizeof out, cudaMemcpyDeviceToHost, native(stream)),
        "reading a number");
  check(cudaStreamSynchronize(native(stream)), "waiting for a number");
  return out;
}

void number_runs(const Elements& x, const int64_t* order, int64_t* ranks, Scratch& scratch,
                 Stream stream) {
  int64_t* heads = scratch.of<int64_t>(x.n);
  by_size(x.itemsize, [&](auto u) { flag_heads<decltype(u)>(x, order, heads, stream); });
  run_cub(scratch, "cub::DeviceScan", [&](void* memory, size_t& bytes) {
    return cub::DeviceScan::InclusiveSum(memory, bytes, heads, ranks, x.n, native(stream));
  });
}

void find_heads(const int64_t* ranks, int64_t n, int64_t* heads, Stream stream) {
  launch(n, stream, [=] __device__(int64_t i) {
    if (i == 0 || ranks[i] != ranks[i - 1]) heads[ranks[i] - 1] = i;
  });
}

void write_inverse(const int64_t* order, const int64_t* ranks, int64_t n, int64_t* inverse,
                   Stream stream) {
  launch(n, stream, [=] __device__(int64_t i) { inverse[order[i]] = ranks[i] - 1; });
}

void write_counts(const int64_t* heads, int64_t runs, int64_t n, int64_t* counts, Stream stream) {
  launch(runs, stream, [=] __device__(int64_t r) {
    counts[r] = (r + 1 < runs ? heads[r + 1] : n) - heads[r];
  });
}

void compose(const int64_t* order, const int64_t* heads, int64_t runs, int64_t* to, Stream stream) {
  launch(runs, stream, [=] __device__(int64_t r) { to[r] = order[heads[r]]; });
}

}  // namespace kernels_cub
