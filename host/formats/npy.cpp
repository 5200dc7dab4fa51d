// npy: a magic, a header that is a Python dict literal, then the array's bytes.
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// The header is read by a small grammar of its own: string keys; values are a string, True, False,
// or a tuple of integers. Source: numpy.lib.format.
#include "formats/npy.h"

#include "formats/limits.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tenon::formats {

namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};

struct NpyDtype {
  std::string_view code;  // without the mark of the byte order
  Dtype dtype;
};

constexpr NpyDtype dtype_codes[] = {
    {"b1", Dtype::bool_}, {"u1", Dtype::u8},  {"i1", Dtype::i8},    {"i2", Dtype::i16},
    {"i4", Dtype::i32},   {"i8", Dtype::i64}, {"f2", Dtype::f16},   {"f4", Dtype::f32},
    {"f8", Dtype::f64},   {"c8", Dtype::c64}, {"c16", Dtype::c128},
};

Dtype read_dtype(std::string_view descr, const std::string& subject) {
  std::string_view code = descr;
  const char order = code.empty() ? '\0' : code.front();
  if (order == '<' || order == '|' || order == '=') code.remove_prefix(1);
  for (const NpyDtype& known : dtype_codes)
    if (known.code == code) return known.dtype;
  fail(ErrorCode::unsupported,
       "{}: dtype '{}' is not supported; expected a little-endian number type such as '<f4'",
       subject, printable(descr));
}

// The header's dict. Every step names what it expected.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& subject)
      : text_(text), subject_(subject) {}

  struct Header {
    std::optional<std::string_view> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<int64_t>> shape;
  };

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        header.descr = descr();
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
      } else if (key == "shape") {
        header.shape = tuple();
      } else {
        fail_at("one of the keys descr, fortran_order and shape");
      }
      if (!accept(',') && !at('}')) fail_at("a comma or a brace");
    }
    return header;
  }

 private:
  void skip_space() {
    while (next_ < text_.size() && (text_[next_] == ' ' || text_[next_] == '\n')) ++next_;
  }
  bool at(char c) {
    skip_space();
    return next_ < text_.size() && text_[next_] == c;
  }
  bool accept(char c) {
    if (!at(c)) return false;
    ++next_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail_at(std::string(1, c));
  }
  std::string_view quoted() {
    const char quote = at('"') ? '"' : '\'';
    expect(quote);
    size_t end = text_.find(quote, next_);
    if (end == text_.npos) fail_at("the end of a string");
    std::string_view inside = text_.substr(next_, end - next_);
    next_ = end + 1;
    return inside;
  }
  std::string_view descr() {
    require(!at('['), ErrorCode::unsupported,
            "{}: structured arrays are not supported; save one array of numbers a file", subject_);
    return quoted();
  }
  bool boolean() {
    skip_space();
    std::string_view rest = text_.substr(next_);
    const bool value = rest.starts_with("True");
    if (!value && !rest.starts_with("False")) fail_at("True or False");
    next_ += value ? 4 : 5;
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (!accept(',') && !at(')')) fail_at("a comma or a parenthesis");
    }
    return values;
  }
  int64_t integer() {
    skip_space();
    int64_t value = 0;
    const char* begin = text_.data() + next_;
    auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail_at("an integer of 64 bits");
    next_ += static_cast<size_t>(end - begin);
    return value;
  }
  [[noreturn]] void fail_at(std::string_view expected) {
    fail(ErrorCode::bad_file, "{}: header: expected {} at \"{}\"", subject_, expected,
         printable(text_.substr(std::min(next_, text_.size()))));
  }

  std::string_view text_;
  const std::string& subject_;
  size_t next_ = 0;
};

std::string_view read_header(ByteReader& in, const std::string& subject) {
  in.expect(kMagic, "the mark of an npy file");
  const uint8_t major = in.u8("the version");
  in.skip(1, "the version");
  require(1 <= major && major <= 3, ErrorCode::bad_file,
          "{}: expected npy version 1, 2 or 3, found {}", subject, major);
  const uint64_t length =
      major == 1 ? in.u16("the length of the header") : in.u32("the length of the header");
  require(length <= limits::npy_header, ErrorCode::bad_file,
          "{}: expected a header of at most {} bytes, found a length of {}", subject,
          limits::npy_header, length);
  return in.text(length, "the header");
}

std::vector<int64_t> fortran_strides(std::vector<int64_t> sizes) {
  std::ranges::reverse(sizes);
  std::vector<int64_t> strides = contiguous_strides(sizes);
  std::ranges::reverse(strides);
  return strides;
}

}  // namespace

RawTensor read_npy(const Bytes& file, const std::string& subject) {
  ByteReader in(file.span, subject);
  auto header = HeaderParser(read_header(in, subject), subject).parse();
  require(header.descr && header.fortran_order && header.shape, ErrorCode::bad_file,
          "{}: header: expected the keys descr, fortran_order and shape", subject);
  RawTensor tensor;
  tensor.dtype = read_dtype(*header.descr, subject);
  tensor.sizes = std::move(*header.shape);
  const auto bytes = static_cast<uint64_t>(checked_numel(tensor.sizes, tensor.dtype, subject)) *
                     static_cast<uint64_t>(itemsize(tensor.dtype));
  tensor.strides =
      *header.fortran_order ? fortran_strides(tensor.sizes) : contiguous_strides(tensor.sizes);
  tensor.data = {in.take(bytes, "the array's data"), file.owner};
  require(in.remaining() == 0, ErrorCode::bad_file,
          "{}: expected {} bytes of data, found {} more; is it one array?", subject, bytes,
          in.remaining());
  return tensor;
}

RawTensor read_npy(const std::string& path) { return read_npy(map_file(path), path); }

namespace {

std::string header_text(const RawTensor& tensor) {
  std::string_view code;
  for (const NpyDtype& known : dtype_codes)
    if (known.dtype == tensor.dtype) code = known.code;
  require(!code.empty(), ErrorCode::unsupported,
          "npy: the format has no dtype {}; convert the tensor to f32 first", tensor.dtype);
  std::string shape;
  for (int64_t size : tensor.sizes) shape += std::to_string(size) + ", ";
  if (tensor.sizes.size() > 1) shape.resize(shape.size() - 2);
  return message("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                 itemsize(tensor.dtype) == 1 ? "|" : "<", code, shape);
}

}  // namespace

void write_npy(std::ostream& out, const RawTensor& tensor) {
  const auto bytes = checked_numel(tensor.sizes, tensor.dtype, "npy") * itemsize(tensor.dtype);
  require(tensor.strides == contiguous_strides(tensor.sizes) &&
              tensor.data.span.size() == static_cast<uint64_t>(bytes),
          "npy: expected a contiguous tensor of {} bytes, found {} bytes; make it contiguous first",
          bytes, tensor.data.span.size());
  std::string header = header_text(tensor);
  constexpr size_t alignment = 64;
  constexpr size_t before = kMagic.size() + 2 + sizeof(uint16_t);
  while ((before + header.size() + 1) % alignment != 0) header += ' ';
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  out << kMagic << '\1' << '\0';
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << as_text(tensor.data.span);
}

void write_npy(const std::string& path, const RawTensor& tensor) {
  write_file(path, [&](std::ostream& out) { write_npy(out, tensor); });
}

}  // namespace tenon::formats
