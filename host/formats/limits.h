// Bounds on what a file may ask for, and checked size arithmetic. All of them hold before anything
// is allocated or read.
#pragma once

#include "formats/byte_reader.h"

#include <tenon/dtype.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::formats::limits {

inline constexpr uint64_t archive_bytes = uint64_t{64} << 30;  // unpacked, in all; --max-size
inline constexpr uint64_t archive_entries = 1'000'000;
inline constexpr uint64_t deflate_ratio = 1000;
inline constexpr uint64_t json_ratio = 100;  // of deflated records of JSON, above `json_slack`
inline constexpr uint64_t json_slack = uint64_t{4} << 20;
inline constexpr size_t json_values = 1'000'000;  // and one for each `json_bytes_a_value`
inline constexpr size_t json_bytes_a_value = 8;
inline constexpr size_t entry_name = 1024;
inline constexpr int json_depth = 512;
inline constexpr int tensor_rank = 64;
inline constexpr size_t symbols = 1 << 14;  // of one program
inline constexpr size_t expression_length = 64 * 1024;
inline constexpr uint64_t safetensors_header = 100'000'000;  // the format's own bound
inline constexpr uint64_t npy_header = 1 << 20;

}  // namespace tenon::formats::limits

namespace tenon::formats {

/// What a tensor of a file looks like: a view of `bytes` with strides and offset in elements.
struct RawView {
  Dtype dtype = Dtype::f32;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  int64_t offset = 0;
};

/// What an error is about: anything that a message can print, made into text only when one is
/// needed.
using Subject = detail::MessageArg;

/// Elements of `sizes`. Throws UserError(bad_file), naming `subject`, for a rank above the limit, a
/// negative size, or more bytes than 2^63 - 1 where sizes of zero count as one.
int64_t checked_numel(std::span<const int64_t> sizes, Dtype dtype, const Subject& subject);

/// Strides of `sizes`, which checked_numel() has seen, laid out row by row without gaps.
std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes);

/// Throws UserError(bad_file), naming `subject`, unless every element of `view` lies within a
/// storage of `storage_bytes` bytes. More bytes than needed are fine.
void check_view(const RawView& view, uint64_t storage_bytes, const Subject& subject);

}  // namespace tenon::formats
