// One row a file format.
#include "formats/formats.h"

#include "formats/limits.h"
#include "formats/tenon_file.h"

namespace tenon::formats {

namespace {

bool begins_with(ByteSpan file, std::string_view magic) { return as_text(file).starts_with(magic); }

bool is_zip(ByteSpan file) { return begins_with(file, std::string_view("PK\3\4", 4)); }

bool is_npy(ByteSpan file) { return begins_with(file, std::string_view("\x93NUMPY", 6)); }

// No magic: the length of a header, which begins with a brace.
bool is_safetensors(ByteSpan file) {
  if (file.size() < 10) return false;
  uint64_t length = ByteReader(file, "").u64("the length of the header");
  return length >= 2 && length <= limits::safetensors_header && as_text(file)[8] == '{';
}

constexpr FormatDef formats[] = {
    {"pt2", "exported PyTorch program", ".pt2", is_zip},
    {"npy", "array of NumPy", ".npy", is_npy},
    {"safetensors", "named tensors", ".safetensors", is_safetensors},
    {"tenon", "compiled model", ".tenon", is_tenon_file},
};

}  // namespace

const FormatDef& find_format(const std::string& path, std::string_view also) {
  const Bytes file = map_file(path);
  std::string known(also);
  for (const FormatDef& format : formats) {
    if (format.matches(file.span)) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.extension);
  }
  fail(ErrorCode::bad_file, "{}: the format is not known; expected one of {}", path, known);
}

}  // namespace tenon::formats
