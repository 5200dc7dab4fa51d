// Tensors as text for people: the elements, as PyTorch lays them out.
//
// One format serves all elements of a tensor: whole numbers with a point behind, four digits after
// the point, or an exponent where the values differ by more than 1000 or are very large or small.
#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/tensor.h>
#include <tenon/tree.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <functional>
#include <ostream>

namespace tenon {

namespace {

constexpr int64_t most_shown = 1000, shown_at_each_end = 3;

/// The elements that are shown, as texts, by row-major position.
using ElementText = std::function<std::string(int64_t)>;

template <class... A>
std::string formatted(const char* format, A... a) {
  char text[64];
  std::snprintf(text, sizeof text, format, a...);
  return text;
}

// "%.0f.", "%.4f" or "%.4e", by the finite values.
const char* format_for(const std::vector<double>& values) {
  double least = HUGE_VAL, most = 0;
  bool whole = true;
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    whole = whole && v == std::nearbyint(v);
    if (v == 0) continue;
    least = std::min(least, std::fabs(v));
    most = std::max(most, std::fabs(v));
  }
  bool exponent = most > 1e8 || (!whole && (least < 1e-4 || most / least > 1000));
  return exponent ? "%.4e" : whole ? "%.0f." : "%.4f";
}

// The program's own line is not known.
constexpr std::source_location in_a_print{};

template <class T>
ElementText reals(const Tensor& t) {
  std::vector<T> elements = t.to_vector<T>(in_a_print);
  std::vector<double> values(elements.begin(), elements.end());
  const char* format = format_for(values);
  return [values = std::move(values), format](int64_t i) {
    double v = values[static_cast<size_t>(i)];
    return std::isfinite(v) ? formatted(format, v) : formatted("%f", v);
  };
}

template <class T>
ElementText integers(const Tensor& t) {
  return [elements = t.to_vector<T>(in_a_print)](int64_t i) {
    return std::to_string(static_cast<int64_t>(elements[static_cast<size_t>(i)]));
  };
}

ElementText booleans(const Tensor& t) {
  std::vector<bool> elements = t.to_vector<bool>(in_a_print);
  return [elements](int64_t i) { return elements[static_cast<size_t>(i)] ? "true" : "false"; };
}

ElementText elements_of(const Tensor& t) {
  switch (t.dtype()) {
    case Dtype::f32:
      return reals<float>(t);
    case Dtype::f64:
      return reals<double>(t);
    case Dtype::f16:
      return reals<Half>(t);
    case Dtype::bf16:
      return reals<BFloat16>(t);
    case Dtype::bool_:
      return booleans(t);
    case Dtype::u8:
      return integers<uint8_t>(t);
    case Dtype::i8:
      return integers<int8_t>(t);
    case Dtype::i16:
      return integers<int16_t>(t);
    case Dtype::i32:
      return integers<int32_t>(t);
    case Dtype::i64:
      return integers<int64_t>(t);
    default:
      return nullptr;
  }
}

/// Writes brackets, commas and line breaks around elements of one width.
struct Writer {
  std::ostream& out;
  const std::vector<int64_t>& sizes;
  const ElementText& element;
  bool shortened;
  size_t width = 0;

  void each_shown(size_t dim, const std::function<void(int64_t)>& f,
                  const std::function<void()>& gap) {
    int64_t n = sizes[dim];
    bool cut = shortened && n > 2 * shown_at_each_end;
    for (int64_t i = 0; i < n; ++i) {
      if (cut && i == shown_at_each_end) {
        gap();
        i = n - shown_at_each_end;
      }
      f(i);
    }
  }
  void measure(size_t dim, int64_t begin) {
    if (dim == sizes.size()) {
      width = std::max(width, element(begin).size());
      return;
    }
    each_shown(
        dim, [&](int64_t i) { measure(dim + 1, begin * sizes[dim] + i); }, [] {});
  }
  void write(size_t dim, int64_t begin, size_t indent) {
    if (dim == sizes.size()) {
      std::string text = element(begin);
      out << std::string(width - text.size(), ' ') << text;
      return;
    }
    bool innermost = dim + 1 == sizes.size();
    std::string separator =
        innermost ? ", "
                  : "," + std::string(sizes.size() - dim - 1, '\n') + std::string(indent + 1, ' ');
    bool first = true;
    auto separate = [&] { out << (std::exchange(first, false) ? "" : separator); };
    out << "[";
    each_shown(
        dim,
        [&](int64_t i) {
          separate();
          write(dim + 1, begin * sizes[dim] + i, indent + 1);
        },
        [&] {
          separate();
          out << "...";
        });
    out << "]";
  }
};

bool is_usual(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::i64 || dtype == Dtype::bool_;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t.defined()) return out << "tensor(undefined)";
  ElementText element = elements_of(t);
  if (!element) return out << to_text(t);
  std::vector<int64_t> sizes;
  for (SymInt s : t.sizes()) sizes.push_back(s);
  int64_t n = t.numel();
  Writer writer{out, sizes, element, n > most_shown};
  out << "tensor(";
  if (n == 0) {
    out << "[]";
  } else {
    writer.measure(0, 0);
    writer.write(0, 0, std::string_view("tensor(").size());
  }
  if (n == 0 && sizes.size() != 1) out << ", size=" << t.sizes();
  if (!is_usual(t.dtype())) out << ", dtype=" << std::string_view(to_text(t.dtype()));
  return out << ")";
}

}  // namespace tenon
