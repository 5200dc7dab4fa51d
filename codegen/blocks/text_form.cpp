#include "text_form.h"

#include "machine.h"

#include <inductor_runtime/saved_fields.h>
#include <inductor_runtime/saved_form.h>
#include <loopir/making/digest.h>
#include <loopir/saving/bytes.h>

#include <bit>
#include <charconv>

namespace blocks {

using inductor::Parts;
using tenon::plugin::error;
namespace detail = loopir::detail;

namespace {

constexpr std::string_view head = "program ";
constexpr uint32_t version = 3;

[[noreturn]] void fail(const char* what) {
  throw error(TN_DATA_LOSS, tenon::plugin::text("saved program: {}", what));
}

// ---- writing

/// Visitor that writes; what it visits is not changed.
class TextWriter {
 public:
  explicit TextWriter(const loopir::Expressions& pool) : pool_(pool) {}

  std::string take() {
    std::string body = std::move(out_);
    out_.clear();
    open(nodes_.size());
    for (loopir::IndexNode& node : nodes_) {
      choice(node.kind, loopir::IndexKind::max);
      (*this)(node.number);
      (*this)(node.operands);
    }
    close();
    return std::move(out_) + body;
  }

  template <class T>
  void operator()(T& x) {
    if constexpr (std::is_floating_point_v<T>) {
      put(std::bit_cast<uint64_t>(static_cast<double>(x)));
    } else if constexpr (std::is_arithmetic_v<T>) {
      put(static_cast<int64_t>(x));
    } else if constexpr (std::is_array_v<T>) {
      for (auto& item : x) (*this)(item);
    } else if constexpr (std::is_same_v<T, std::string>) {
      quote(x);
    } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
      open(x.size());
      for (bool bit : x) put(int64_t{bit});
      close();
    } else if constexpr (detail::is_vector<T>) {
      open(x.size());
      for (auto& item : x) (*this)(item);
      close();
    } else if constexpr (detail::is_map<T>) {
      open(x.size());
      for (auto& [key, item] : x) {
        put(static_cast<int64_t>(key));
        (*this)(item);
      }
      close();
    } else if constexpr (detail::is_optional<T>) {
      put(int64_t{x.has_value()});
      if (x) (*this)(*x);
    } else if constexpr (detail::is_pair<T>) {
      (*this)(x.first);
      (*this)(x.second);
    } else if constexpr (detail::is_variant<T>) {
      put(static_cast<int64_t>(x.index()));
      std::visit([this](auto& item) { (*this)(item); }, x);
    } else {
      fields(*this, x);
      if (!out_.ends_with('\n')) out_ += '\n';
    }
  }
  template <class E>
  void choice(E& e, E) {
    put(static_cast<int64_t>(e));
  }
  void index(Id& id) { put(id == none ? int64_t{-1} : number_of(id)); }
  void indices(loopir::Ids& ids) {
    open(ids.size());
    for (Id& id : ids) index(id);
    close();
  }
  void buffer(Id& id) { put(int64_t{id}); }
  void maybe_buffer(Id& id) { put(id == none ? int64_t{-1} : int64_t{id}); }
  void buffers(loopir::Ids& ids) { (*this)(ids); }
  void maybe_buffers(loopir::Ids& ids) {
    open(ids.size());
    for (Id& id : ids) maybe_buffer(id);
    close();
  }
  void buffers_known(size_t) {}
  void expressions(loopir::Expressions& x) { (*this)(x.symbols); }

 private:
  template <class T>
  void put(T number) {
    if (!out_.empty() && out_.back() != '\n') out_ += ' ';
    out_ += std::to_string(number);
  }
  void open(size_t n) {
    put(n);
    out_ += " [";
  }
  void close() { out_ += " ]\n"; }
  void quote(const std::string& text) {
    out_ += out_.empty() || out_.back() == '\n' ? "\"" : " \"";
    for (char c : text) {
      if (c == '"' || c == '\\') out_ += '\\';
      out_ += c == '\n' ? ' ' : c;
    }
    out_ += '"';
  }
  int64_t number_of(Id id) {
    if (auto known = numbers_.find(id); known != numbers_.end()) return known->second;
    loopir::IndexNode node = pool_.index_at(id);
    if (node.kind == loopir::IndexKind::variable || node.kind == loopir::IndexKind::value)
      throw error(TN_INTERNAL, "saved program: an index depends on data");
    for (Id& operand : node.operands) operand = static_cast<Id>(number_of(operand));
    nodes_.push_back(std::move(node));
    return numbers_[id] = static_cast<int64_t>(nodes_.size()) - 1;
  }

  const loopir::Expressions& pool_;
  std::vector<loopir::IndexNode> nodes_;
  std::map<Id, int64_t> numbers_;
  std::string out_;
};

// ---- reading

/// Visitor that turns the text into the bytes that loopir::Reader checks and reads.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : rest_(text) {
    loopir::IndexNode node;
    size_t n = open();
    bytes_of<uint64_t>(n);
    for (; n > 0; --n) {
      choice(node.kind, loopir::IndexKind::max);
      number<int64_t>();
      ids();
    }
    close();
  }
  std::string take() {
    skip();
    if (!rest_.empty()) fail("text after the end");
    return std::move(bytes_);
  }

  template <class T>
  void operator()(T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      number<uint8_t>();
    } else if constexpr (std::is_floating_point_v<T>) {
      number<uint64_t>();
    } else if constexpr (std::is_arithmetic_v<T>) {
      number<T>();
    } else if constexpr (std::is_array_v<T>) {
      for (auto& item : x) (*this)(item);
    } else if constexpr (std::is_same_v<T, std::string>) {
      text();
    } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
      list([&] { number<uint8_t>(); });
    } else if constexpr (detail::is_vector<T>) {
      list([&] {
        typename T::value_type item{};
        (*this)(item);
      });
    } else if constexpr (detail::is_map<T>) {
      list([&] {
        number<typename T::key_type>();
        typename T::mapped_type item{};
        (*this)(item);
      });
    } else if constexpr (detail::is_optional<T>) {
      if (number<uint8_t>() != 0) (*this)(x.emplace());
    } else if constexpr (detail::is_pair<T>) {
      (*this)(x.first);
      (*this)(x.second);
    } else if constexpr (detail::is_variant<T>) {
      auto which = static_cast<size_t>(number<uint8_t>());
      alternative(x, which, std::make_index_sequence<std::variant_size_v<T>>());
    } else {
      fields(*this, x);
    }
  }
  template <class E>
  void choice(E&, E) {
    number<uint8_t>();
  }
  void index(Id&) { number<Id>(); }
  void indices(loopir::Ids&) { ids(); }
  void buffer(Id&) { number<Id>(); }
  void maybe_buffer(Id&) { number<Id>(); }
  void buffers(loopir::Ids&) { ids(); }
  void maybe_buffers(loopir::Ids&) { ids(); }
  void buffers_known(size_t) {}
  void expressions(loopir::Expressions& x) { (*this)(x.symbols); }

 private:
  template <class T>
  void bytes_of(T x) {
    bytes_.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  void skip() {
    size_t at = rest_.find_first_not_of(" \n");
    rest_.remove_prefix(std::min(at, rest_.size()));
  }
  template <class T>
  int64_t number() {
    skip();
    int64_t value = 0;
    uint64_t large = 0;
    const char* end = rest_.data() + rest_.size();
    auto read = std::from_chars(rest_.data(), end, value);
    if (read.ec != std::errc()) {
      read = std::from_chars(rest_.data(), end, large);
      value = static_cast<int64_t>(large);
    }
    if (read.ec != std::errc()) fail("a number is missing");
    rest_.remove_prefix(static_cast<size_t>(read.ptr - rest_.data()));
    bytes_of(static_cast<T>(value));
    return value;
  }
  size_t open() {
    size_t bytes = bytes_.size();
    int64_t n = number<uint64_t>();
    bytes_.resize(bytes);
    if (n < 0 || static_cast<uint64_t>(n) > rest_.size()) fail("a list is longer than the text");
    expect('[');
    return static_cast<size_t>(n);
  }
  void close() { expect(']'); }
  void expect(char c) {
    skip();
    if (rest_.empty() || rest_.front() != c) fail("a list does not begin or end where it should");
    rest_.remove_prefix(1);
  }
  template <class F>
  void list(F item) {
    size_t n = open();
    bytes_of<uint64_t>(n);
    for (; n > 0; --n) item();
    close();
  }
  void ids() {
    list([&] { number<Id>(); });
  }
  void text() {
    expect('"');
    std::string out;
    for (;;) {
      if (rest_.empty()) fail("a text has no end");
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') break;
      if (c == '\\' && !rest_.empty()) {
        c = rest_.front();
        rest_.remove_prefix(1);
      }
      out += c;
    }
    bytes_of<uint64_t>(out.size());
    bytes_ += out;
  }
  template <class T, size_t... I>
  void alternative(T& x, size_t which, std::index_sequence<I...>) {
    bool known = ((which == I ? ((*this)(x.template emplace<I>()), true) : false) || ...);
    if (!known) fail("an item of an unknown kind");
  }

  std::string_view rest_;
  std::string bytes_;
};

/// The code of each kernel, by item.
std::vector<Code> codes_of(const Parts& parts) {
  std::vector<Code> out;
  for (const inductor::KernelCode& f : parts.functions)
    if (f.body) out.push_back(static_cast<const Machine&>(*f.body).code());
  return out;
}

void bind_codes(Parts& parts, std::vector<Code> codes) {
  auto next = codes.begin();
  for (const inductor::KernelInterface& k : parts.kernels) {
    inductor::KernelCode& out = parts.functions.emplace_back();
    if (k.symbol.empty()) continue;
    if (next == codes.end()) fail("a kernel without code");
    if (next->n_buffers != k.buffers.size() || next->scratch_bytes() != k.scratch_bytes)
      fail("a kernel with the code of another one");
    out.body = std::make_shared<const Machine>(std::move(*next++));
  }
}

std::string first_line(const std::string& body) {
  return std::string(head) + std::to_string(version) + " " + loopir::digest(body) + "\n";
}

}  // namespace

std::string text_form(inductor::Executable& program) {
  TextWriter writer(program.parts().program.expressions);
  std::vector<Code> codes = codes_of(program.parts());
  writer(program.parts());
  writer(codes);
  std::string body = writer.take();
  return first_line(body) + body;
}

std::unique_ptr<inductor::Executable> parse_text_form(const tn_compile_request& request,
                                                      std::string_view text) {
  size_t end = text.find('\n');
  if (!text.starts_with(head) || end == text.npos)
    fail("the first line does not begin \"program\"");
  std::string body(text.substr(end + 1));
  std::string wanted = std::string(head) + std::to_string(version) + " ";
  if (!text.starts_with(wanted))
    throw error(TN_FAILED_PRECONDITION,
                tenon::plugin::text("the program was saved in another version; this plugin reads "
                                    "version {}; compile it again",
                                    version));
  if (text.substr(0, end + 1) != first_line(body)) fail("the text is damaged");
  Parts shape, parts;
  std::vector<Code> codes;
  TextReader tokens(body);
  tokens(shape);
  tokens(codes);
  std::string bytes = tokens.take();
  codes.clear();
  loopir::Reader reader(bytes);
  reader(parts);
  reader(codes);
  reader.finish();
  inductor::bind_loaded(parts, request);
  bind_codes(parts, std::move(codes));
  return std::make_unique<inductor::Executable>(std::move(parts));
}

}  // namespace blocks
