// safetensors: eight bytes of header length, a JSON header, then the tensors' bytes without gaps.
//
// The header maps names to {dtype, shape, data_offsets: [begin, end]}, offsets counted from the end
// of the header; "__metadata__" maps texts to texts. As the format demands, the tensors cover the
// data exactly: a gap or an overlap is an error, so nothing can hide in a file.
#include "formats/safetensors.h"

#include "core/utf8.h"
#include "formats/json.h"
#include "formats/limits.h"

#include <algorithm>
#include <utility>

namespace tenon::formats {

namespace {

struct NamedDtype {
  std::string_view name;
  Dtype dtype;
};

constexpr NamedDtype dtype_names[] = {
    {"BOOL", Dtype::bool_},       {"U8", Dtype::u8},   {"I8", Dtype::i8},
    {"I16", Dtype::i16},          {"I32", Dtype::i32}, {"I64", Dtype::i64},
    {"F16", Dtype::f16},          {"F32", Dtype::f32}, {"F64", Dtype::f64},
    {"BF16", Dtype::bf16},        {"C64", Dtype::c64}, {"F8_E5M2", Dtype::f8e5m2},
    {"F8_E4M3", Dtype::f8e4m3fn},
};

// Dtypes of the format that Tenon has not.
constexpr std::string_view foreign_dtypes[] = {"U16",     "U32",     "U64",    "F4",
                                               "F6_E2M3", "F6_E3M2", "F8_E8M0"};

Dtype read_dtype(const JsonView& view) {
  const std::string& name = view.text();
  for (const NamedDtype& known : dtype_names)
    if (known.name == name) return known.dtype;
  require(std::ranges::find(foreign_dtypes, name) == std::end(foreign_dtypes),
          ErrorCode::unsupported, "{}: dtype {} is not supported; convert the tensor first", view,
          name);
  fail(ErrorCode::bad_file, "{}: expected a dtype such as F32, found \"{}\"", view,
       printable(name));
}

struct Range {
  uint64_t begin;
  uint64_t end;
};

Range read_range(const JsonView& view, uint64_t limit) {
  std::vector<JsonView> ends = view.items();
  require(ends.size() == 2, ErrorCode::bad_file, "{}: expected two offsets, found {}", view,
          ends.size());
  int64_t begin = ends[0].integer();
  int64_t end = ends[1].integer();
  require(0 <= begin && begin <= end && static_cast<uint64_t>(end) <= limit, ErrorCode::bad_file,
          "{}: expected offsets within {} bytes of data, found {} to {}; is the file complete?",
          view, limit, begin, end);
  return {static_cast<uint64_t>(begin), static_cast<uint64_t>(end)};
}

RawTensor read_tensor(const JsonView& view, ByteSpan data, Range& range) {
  RawTensor tensor;
  tensor.dtype = read_dtype(view.field("dtype"));
  for (const JsonView& size : view.field("shape").items()) tensor.sizes.push_back(size.integer());
  range = read_range(view.field("data_offsets"), data.size());
  const auto numel = static_cast<uint64_t>(checked_numel(tensor.sizes, tensor.dtype, view));
  const uint64_t wanted = numel * static_cast<uint64_t>(itemsize(tensor.dtype));
  require(range.end - range.begin == wanted, ErrorCode::bad_file,
          "{}: expected {} bytes for its shape and dtype, found {}", view, wanted,
          range.end - range.begin);
  tensor.strides = contiguous_strides(tensor.sizes);
  tensor.data.span = data.subspan(range.begin, wanted);
  return tensor;
}

void check_cover(std::vector<Range> ranges, uint64_t size, const std::string& subject) {
  std::ranges::sort(ranges, {}, [](const Range& r) { return std::pair(r.begin, r.end); });
  uint64_t end = 0;
  for (const Range& range : ranges) {
    require(range.begin == end, ErrorCode::bad_file,
            "{}: expected tensors without gap or overlap, found one that begins at byte {} of the "
            "data instead of {}",
            subject, range.begin, end);
    end = range.end;
  }
  require(end == size, ErrorCode::bad_file,
          "{}: expected {} bytes of data after the header, found {}; is the file complete?",
          subject, end, size);
}

}  // namespace

Safetensors read_safetensors(const Bytes& file, const std::string& subject) {
  ByteReader in(file.span, subject);
  const uint64_t length = in.u64("the length of the header");
  require(length <= limits::safetensors_header && length <= in.remaining(), ErrorCode::bad_file,
          "{}: expected a safetensors header of at most {} bytes, found a length of {}", subject,
          std::min(limits::safetensors_header, in.remaining()), length);
  JsonDocument header = parse_json(in.take(length, "the header"), subject + ": header");
  const ByteSpan data = in.take(in.remaining(), "the data");
  Safetensors content;
  std::vector<Range> ranges;
  for (const auto& [name, view] : header.view().members()) {
    if (name == "__metadata__") {
      for (const auto& [key, text] : view.members()) content.metadata.emplace(key, text.text());
      continue;
    }
    RawTensor tensor = read_tensor(view, data, ranges.emplace_back());
    tensor.data.owner = file.owner;
    content.tensors.emplace(name, std::move(tensor));
  }
  check_cover(std::move(ranges), data.size(), subject);
  return content;
}

Safetensors read_safetensors(const std::string& path) {
  return read_safetensors(map_file(path), path);
}

namespace {

using Entry = std::pair<const std::string, RawTensor>;

// Larger elements first: then each tensor begins at a multiple of its element size.
std::vector<const Entry*> writing_order(const Safetensors& content) {
  std::vector<const Entry*> order;
  for (const Entry& entry : content.tensors) order.push_back(&entry);
  std::ranges::sort(order, {}, [](const Entry* e) {
    return std::pair<int64_t, std::string_view>(-itemsize(e->second.dtype), e->first);
  });
  return order;
}

// What was replaced to make it JSON would be found by nobody who reads the file.
void require_utf8(std::string_view what, const std::string& text) {
  require(is_utf8(text), "safetensors: {} '{}' is not UTF-8, in which the format keeps its texts",
          what, shown(text));
}

void check_writable(const std::string& name, const RawTensor& tensor) {
  require_utf8("the name of tensor", name);
  auto bytes = checked_numel(tensor.sizes, tensor.dtype, name) * itemsize(tensor.dtype);
  require(
      tensor.strides == contiguous_strides(tensor.sizes) &&
          tensor.data.span.size() == static_cast<uint64_t>(bytes),
      "safetensors: tensor {}: expected a contiguous tensor of {} bytes, found {} bytes; make it "
      "contiguous first",
      name, bytes, tensor.data.span.size());
}

std::string_view written_dtype(const std::string& name, Dtype dtype) {
  for (const NamedDtype& known : dtype_names)
    if (known.dtype == dtype) return known.name;
  fail(ErrorCode::unsupported, "safetensors: tensor {}: the format has no dtype {}", name, dtype);
}

Json make_header(const Safetensors& content, const std::vector<const Entry*>& order) {
  Json::Object header;
  if (!content.metadata.empty()) {
    Json::Object metadata;
    for (const auto& [key, text] : content.metadata) {
      require_utf8("the key of metadata", key);
      require_utf8("the metadata", text);
      metadata.push_back({key, text});
    }
    header.push_back({"__metadata__", std::move(metadata)});
  }
  int64_t offset = 0;
  for (const Entry* entry : order) {
    const auto& [name, tensor] = *entry;
    check_writable(name, tensor);
    auto end = offset + static_cast<int64_t>(tensor.data.span.size());
    Json::Object fields;
    fields.push_back({"dtype", written_dtype(name, tensor.dtype)});
    fields.push_back({"shape", Json::Array(tensor.sizes.begin(), tensor.sizes.end())});
    fields.push_back({"data_offsets", Json::Array{offset, end}});
    header.push_back({name, std::move(fields)});
    offset = end;
  }
  return header;
}

}  // namespace

void write_safetensors(std::ostream& out, const Safetensors& content) {
  const std::vector<const Entry*> order = writing_order(content);
  std::string header = make_header(content, order).dump();
  constexpr uint64_t alignment = 64;
  while ((sizeof(uint64_t) + header.size()) % alignment != 0) header += ' ';
  const uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const Entry* entry : order) {
    std::string_view bytes = as_text(entry->second.data.span);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

void write_safetensors(const std::string& path, const Safetensors& content) {
  write_file(path, [&](std::ostream& out) { write_safetensors(out, content); });
}

}  // namespace tenon::formats
