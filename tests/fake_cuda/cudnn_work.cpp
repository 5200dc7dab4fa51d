// Operations element by element. Tensors are held as dense arrays of double meanwhile.
#include "cudnn_work.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <sstream>

namespace fake_cudnn {

using fake_cuda::Number;
using Kind = Operation::Kind;

Number Tensor::number() const {
  return type == dnn::data_f16    ? Number::f16
         : type == dnn::data_bf16 ? Number::bf16
         : type == dnn::data_bool ? Number::boolean
                                  : Number::f32;
}
int64_t Tensor::count() const {
  int64_t out = 1;
  for (int64_t size : sizes) out *= size;
  return out;
}
int64_t Tensor::bytes() const {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  return (last + 1) * fake_cuda::bytes_of(number());
}

// What a split sum would need: as much as the first result.
int64_t Graph::workspace_bytes() const {
  const Operation& first = operations.front();
  return first.kind == Kind::pointwise ? 0 : tensors.at(first.tensors[2]).count() * 4;
}

// ---- plans as text: a word, then numbers

namespace {

constexpr const char* word = "plan-of-the-double";

/// Writes numbers, or reads them back: `field` is one of both.
struct Writing {
  std::ostringstream out;
  template <class T>
  bool field(T& number) {
    out << ' ' << static_cast<int64_t>(number);
    return true;
  }
  size_t count(size_t n) {
    out << ' ' << n;
    return n;
  }
};
struct Reading {
  std::istringstream in;
  template <class T>
  bool field(T& number) {
    int64_t value = 0;
    in >> value;
    number = static_cast<T>(value);
    return !in.fail();
  }
  size_t count(size_t) {
    constexpr size_t most = 1000;
    size_t n = 0;
    in >> n;
    return in.fail() || n > most ? 0 : n;
  }
};

template <class V>
bool numbers(V& v, std::vector<int64_t>& list) {
  list.resize(v.count(list.size()));
  return std::ranges::all_of(list, [&](int64_t& n) { return v.field(n); });
}
template <class V>
bool tensor(V& v, Tensor& t) {
  return v.field(t.type) && v.field(t.id) && v.field(t.alignment) && v.field(t.is_virtual) &&
         v.field(t.is_by_value) && numbers(v, t.sizes) && numbers(v, t.strides);
}
template <class V>
bool operation(V& v, Operation& o) {
  return v.field(o.kind) &&
         std::ranges::all_of(o.tensors, [&](int64_t& t) { return v.field(t); }) &&
         v.field(o.mode) && v.field(o.axis) && numbers(v, o.strides) && numbers(v, o.paddings) &&
         numbers(v, o.dilations);
}
template <class V>
bool plan_fields(V& v, Plan& plan) {
  std::vector<Tensor> tensors;
  for (const auto& [id, t] : plan.graph.tensors) tensors.push_back(t);
  tensors.resize(v.count(tensors.size()));
  plan.graph.operations.resize(v.count(plan.graph.operations.size()));
  bool is_read =
      v.field(plan.is_exact) &&
      std::ranges::all_of(tensors, [&](Tensor& t) { return tensor(v, t); }) &&
      std::ranges::all_of(plan.graph.operations, [&](Operation& o) { return operation(v, o); });
  for (const Tensor& t : tensors) plan.graph.tensors[t.id] = t;
  return is_read && !plan.graph.operations.empty();
}

}  // namespace

std::string text_of(const Plan& plan) {
  Writing writing;
  Plan copy = plan;
  plan_fields(writing, copy);
  return word + writing.out.str();
}

bool read_plan(const std::string& text, Plan& out) {
  if (!text.starts_with(word)) return false;
  Reading reading{std::istringstream(text.substr(std::strlen(word)))};
  return plan_fields(reading, out);
}

// ---- running

namespace {

using Index = std::vector<int64_t>;

/// A tensor's elements, dense in the order of its dimensions.
struct Values {
  Index sizes;
  std::vector<double> elements;

  /// Dimensions of size 1 stand for any index.
  double& at(const Index& i) {
    int64_t place = 0;
    for (size_t d = 0; d < sizes.size(); ++d) place = place * sizes[d] + (sizes[d] == 1 ? 0 : i[d]);
    return elements[static_cast<size_t>(place)];
  }
};

void for_each(const Index& sizes, const std::function<void(const Index&)>& body) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  Index i(sizes.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    body(i);
    for (size_t d = sizes.size(); d-- > 0 && ++i[d] == sizes[d];) i[d] = 0;
  }
}

int64_t place_of(const Tensor& t, const Index& i) {
  int64_t out = 0;
  for (size_t d = 0; d < i.size(); ++d) out += i[d] * t.strides[d];
  return out;
}

double rounded(double value, Number type) {
  if (type == Number::f32) return static_cast<double>(static_cast<float>(value));
  uint16_t bits[2] = {};
  fake_cuda::write(bits, 0, type, value);
  return fake_cuda::read(bits, 0, type);
}

class Runner {
 public:
  explicit Runner(const Run& run) : run_(run) {
    for (const auto& [id, t] : run.graph.tensors) {
      Values& v = values_[id];
      v.sizes = t.sizes;
      v.elements.assign(static_cast<size_t>(t.count()), NAN);
      if (t.is_by_value)
        v.elements[0] = run.numbers.at(id);
      else if (!t.is_virtual)
        for_each(t.sizes, [&](const Index& i) {
          double given = fake_cuda::read(run.addresses.at(id), place_of(t, i), t.number());
          bool is_rounded = run.is_tf32 && t.type == dnn::data_f32;
          v.at(i) = is_rounded ? fake_cuda::as_tf32(given) : given;
        });
    }
  }

  void operator()() {
    for (const Operation& o : run_.graph.operations) {
      work(o);
      size_t result = o.kind == Kind::of_weights                             ? 0
                      : o.kind == Kind::of_source                            ? 1
                      : o.kind == Kind::reduction || o.kind == Kind::reshape ? 1
                                                                             : 2;
      finish(o.tensors[result]);
    }
  }

 private:
  Values& of(const Operation& o, size_t which) { return values_.at(o.tensors[which]); }

  void finish(int64_t id) {
    const Tensor& t = run_.graph.tensors.at(id);
    Values& v = values_.at(id);
    for (double& e : v.elements) e = rounded(e, t.number());
    if (t.is_virtual) return;
    for_each(t.sizes, [&](const Index& i) {
      fake_cuda::write(run_.addresses.at(id), place_of(t, i), t.number(), v.at(i));
    });
  }

  void work(const Operation& o) {
    if (o.kind == Kind::pointwise) return point(o);
    if (o.kind == Kind::product) return multiply(o);
    if (o.kind == Kind::reduction) return reduce(o);
    if (o.kind == Kind::reshape) return turn(o);
    convolve(o);
  }

  // Every pair of a source's element and a weight that meet in a result.
  void convolve(const Operation& o) {
    Values &w = of(o, 0), &s = of(o, 1), &r = of(o, 2);
    Values& made = o.kind == Kind::forward ? r : o.kind == Kind::of_source ? s : w;
    std::fill(made.elements.begin(), made.elements.end(), 0.0);
    size_t space = o.strides.size();
    int64_t of_group = w.sizes[0] / (s.sizes[1] / w.sizes[1]);
    Index sizes{r.sizes[0]};
    sizes.insert(sizes.end(), w.sizes.begin(), w.sizes.end());
    sizes.insert(sizes.end(), r.sizes.begin() + 2, r.sizes.end());
    for_each(sizes, [&](const Index& i) {
      Index from{i[0], i[1] / of_group * w.sizes[1] + i[2]}, to{i[0], i[1]};
      Index weight(i.begin() + 1, i.begin() + 3 + static_cast<std::ptrdiff_t>(space));
      for (size_t d = 0; d < space; ++d) {
        int64_t out = i[3 + space + d];
        int64_t in = out * o.strides[d] - o.paddings[d] + i[3 + d] * o.dilations[d];
        if (in < 0 || in >= s.sizes[2 + d]) return;
        from.push_back(in), to.push_back(out);
      }
      if (o.kind == Kind::forward) r.at(to) += s.at(from) * w.at(weight);
      if (o.kind == Kind::of_source) s.at(from) += r.at(to) * w.at(weight);
      if (o.kind == Kind::of_weights) w.at(weight) += r.at(to) * s.at(from);
    });
  }

  void multiply(const Operation& o) {
    Values &a = of(o, 0), &b = of(o, 1), &c = of(o, 2);
    size_t row = c.sizes.size() - 2;
    for_each(c.sizes, [&](const Index& i) {
      Index left = i, right = i;
      double sum = 0;
      for (int64_t k = 0; k < a.sizes.back(); ++k) {
        left[row + 1] = right[row] = k;
        sum += a.at(left) * b.at(right);
      }
      c.at(i) = sum;
    });
  }

  // The same memory with the last two dimensions exchanged; the plugin asks for nothing else.
  void turn(const Operation& o) {
    Values &x = of(o, 0), &y = of(o, 1);
    for_each(y.sizes, [&](const Index& i) {
      Index from = i;
      std::swap(from.end()[-1], from.end()[-2]);
      y.at(i) = x.at(from);
    });
  }

  void reduce(const Operation& o) {
    Values &x = of(o, 0), &y = of(o, 1);
    bool is_max = o.mode == dnn::reduction_max;
    std::fill(y.elements.begin(), y.elements.end(), is_max ? -INFINITY : 0.0);
    for_each(x.sizes, [&](const Index& i) {
      double& to = y.at(i);
      to = is_max ? std::max(to, x.at(i)) : to + x.at(i);
    });
  }

  double value(const Operation& o, const Index& i) {
    auto operand = [&](size_t which) { return of(o, which).at(i); };
    switch (o.mode) {
      case dnn::mode_add:
        return operand(0) + operand(1);
      case dnn::mode_sub:
        return operand(0) - operand(1);
      case dnn::mode_mul:
        return operand(0) * operand(1);
      case dnn::mode_div:
        return operand(0) / operand(1);
      case dnn::mode_exp:
        return std::exp(operand(0));
      case dnn::mode_log:
        return std::log(operand(0));
      case dnn::mode_relu:
        return operand(0) <= 0 ? 0 : operand(0);
      case dnn::mode_ge:
        return operand(0) >= operand(1) ? 1 : 0;
      case dnn::mode_index:
        return static_cast<double>(i[static_cast<size_t>(o.axis)]);
      case dnn::mode_select:
        return operand(3) != 0 ? operand(0) : operand(1);
      default:
        return NAN;
    }
  }
  void point(const Operation& o) {
    Values& y = of(o, 2);
    for_each(y.sizes, [&](const Index& i) { y.at(i) = value(o, i); });
  }

  const Run& run_;
  std::map<int64_t, Values> values_;
};

}  // namespace

int32_t Run::run(bool (*may_touch)(const void*, size_t)) const {
  constexpr int32_t illegal_address = 700;
  for (const auto& [id, address] : addresses)
    if (!may_touch(address, static_cast<size_t>(graph.tensors.at(id).bytes())))
      return illegal_address;
  auto bytes = static_cast<size_t>(graph.workspace_bytes());
  if (bytes && !may_touch(workspace, bytes)) return illegal_address;
  if (bytes) std::memset(workspace, 0x5a, bytes);
  Runner runner(*this);
  runner();
  return 0;
}

}  // namespace fake_cudnn
