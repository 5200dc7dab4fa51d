// Random programs: whatever a body does with views, writes and looks at data, the compiled callable
// gives what the body alone gives - values, layout, which results share memory with what, and the
// arguments as the body leaves them.
#include "core/tensor/tensor_impl.h"
#include "unit/random_program.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

namespace tenon {
namespace {

constexpr int64_t most_dims = 4;

void write(Tensor& t, const Tensor& value, uint32_t kind, uint32_t n) {
  Tensor v = fitting(t, value);
  switch (kind) {
    case 0:
      t.add_(v);
      break;
    case 1:
      t.mul_(0.5);
      break;
    case 2:
      t.copy_(v);
      break;
    case 3:
      t.relu_();
      break;
    case 4:
      t.fill_(static_cast<double>(n % 3));
      break;
    default:
      view_of(t, n % 6, n, most_dims).sub_(1.0);
  }
}

// Other sizes and strides for the tensor itself.
void restride(Tensor& t, uint32_t kind, uint32_t n) {
  switch (kind) {
    case 0:
      t.dim() == 2 ? t.t_() : t.unsqueeze_(0);
      break;
    case 1:
      t.unsqueeze_(pick_dim(t, n));
      break;
    default:
      if (t.dim() > 1) t.transpose_(0, pick_dim(t, n));
  }
}

Tensor compute(const Tensor& a, const Tensor& b, uint32_t kind, uint32_t n) {
  switch (kind) {
    case 0:
      return a + fitting(a, b);
    case 1:
      return a * fitting(a, b);
    case 2:
      return a.sin();
    case 3:
      return a.dim() ? a.sum(pick_dim(a, n), n % 2 == 0) : a.neg();
    case 4:
      return a.dim() ? cat({a, a}, pick_dim(a, n)) : a.abs();
    case 5:
      return a.clone();
    case 6:
      return a.contiguous();
    default:
      return where(a > 0.0, a, a * 0.25);
  }
}

// Values and sizes that depend on data.
Tensor use_data(const Tensor& a, const Tensor& b, uint32_t kind) {
  switch (kind) {
    case 0:
      return masked_select(a, a > 0.0);
    case 1:
      return a * a.sum().item<float>().sym();
    case 2: {
      SymInt n = (b > 0.0).sum().item<int64_t>();
      return a.reshape({-1}).slice(0, 0, n) + n;
    }
    case 3:
      return a.nonzero().to(Dtype::f32).t();
    default:
      SymInt n = (a > 0.0).sum().item<int64_t>();
      return n > 5 ? b * 2.0 : b - n;
  }
}

enum class Looks : uint8_t { rarely, often };

Pool run(const Program& program, Pool pool, Looks looks = Looks::rarely) {
  for (const Statement& s : program) {
    Tensor a = pool[s.a % pool.size()], b = pool[s.b % pool.size()], result;
    switch (s.op % (looks == Looks::often ? 12 : 9)) {
      case 0:
      case 1:
      case 2:
        result = compute(a, b, s.n % 8, s.n / 8);
        // What contiguous gives back unchanged may become a view of its own.
        if (!result.is_same(a)) pool.push_back(result);
        break;
      case 3:
      case 4:
        pool.push_back(view_of(a, s.n % 7, s.n / 8, most_dims));
        break;
      case 5:
      case 6:
        if (!has_internal_overlap(a)) write(a, b, s.n % 6, s.n / 8);
        break;
      case 7:
        if (s.n % 3 == 0) restride(a, s.n / 3 % 3, s.n / 9);
        break;
      case 8:
        if (s.n % 4 == 0 && a.sum().item<float>() > 0.5f) pool.push_back(a + 1.0);
        break;
      default:
        pool.push_back(use_data(a, b, s.n % 5));
    }
  }
  return pool;
}

// Arguments: three tensors, sometimes one of them twice, a view of another, or not contiguous.
Pool make_arguments(uint32_t kind, int64_t rows, int64_t columns) {
  Tensor x = randn({rows, columns}), y = randn({columns, rows}).transpose(0, 1);
  switch (kind % 4) {
    case 0:
      return {x, y, randn({columns})};
    case 1:
      return {x, x, randn({rows, columns})};
    case 2:
      return {x, x.select(0, 0), y};
    default:
      return {x.narrow(1, 0, columns - 1), x.narrow(1, 1, columns - 1), y};
  }
}

// The same tensors over memory of their own, sharing it as the originals do.
Pool twins(const Pool& pool) {
  std::vector<std::pair<StorageRef, Tensor>> storages;
  Pool out;
  for (size_t i = 0; i < pool.size(); ++i) {
    const Tensor& t = pool[i];
    size_t same = 0;
    while (same < i && !pool[same].is_same(t)) ++same;
    if (same < i) {
      out.push_back(out[same]);
      continue;
    }
    const StorageRef& storage = impl_of(t)->storage_ref;
    auto known = std::find_if(storages.begin(), storages.end(),
                              [&](auto& s) { return s.first.get() == storage.get(); });
    if (known == storages.end()) {
      int64_t n = static_cast<int64_t>(storage->bytes / itemsize(t.dtype()));
      Tensor copy = make_view(t, {SymInt(n)}, {SymInt(1)}, 0).clone();
      known = storages.insert(known, {storage, copy});
    }
    out.push_back(make_view(known->second, t.sizes(), t.strides(), sym_offset_of(t)));
  }
  return out;
}

// The largest difference, relative for large numbers; elements that are both NaN or both the same
// infinity differ by nothing.
double distance(const Tensor& a, const Tensor& b) {
  Tensor x = a.contiguous(), y = b.contiguous();
  const auto *p = static_cast<const float*>(impl_of(x)->data),
             *q = static_cast<const float*>(impl_of(y)->data);
  double worst = 0;
  for (int64_t i = 0; i < impl_of(x)->numel; ++i) {
    if (p[i] == q[i] || (std::isnan(p[i]) && std::isnan(q[i]))) continue;
    double apart = std::fabs(p[i] - q[i]) / std::max(1.0f, std::fabs(p[i]));
    worst = std::isnan(apart) ? INFINITY : std::max(worst, apart);
  }
  return worst;
}

// Strides, where they mean something.
std::vector<int64_t> layout_of(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  std::vector<int64_t> strides;
  for (int32_t d = 0; d < impl->ndim; ++d)
    strides.push_back(impl->numel && impl->sizes[d] > 1 ? impl->strides[d] : 0);
  return strides;
}

void expect_equal(const Pool& expected, const Pool& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    const Tensor &e = expected[i], &f = found[i];
    ASSERT_EQ(to_text(e.sizes()), to_text(f.sizes()));
    EXPECT_EQ(layout_of(e), layout_of(f));
    EXPECT_LE(distance(e, f), 1e-4);
    for (size_t k = 0; k < i; ++k) {
      EXPECT_EQ(e.is_same(expected[k]), f.is_same(found[k])) << "same tensor as " << k;
      EXPECT_EQ(shares_storage(e, expected[k]), shares_storage(f, found[k])) << "memory of " << k;
    }
  }
}

class RandomPrograms : public testing::TestWithParam<const char*> {};

TEST_P(RandomPrograms, GiveWhatTheirBodiesGive) {
  const int n_programs = 600;
  std::mt19937 random(77);
  for (int i = 0; i < n_programs && !HasFailure(); ++i) {
    Program program = random_program(random, 3, 10);
    SCOPED_TRACE("program " + std::to_string(i) + ": " + text_of(program));
    auto body = [program](const Pool& arguments) { return run(program, arguments); };
    auto compiled = compile(body, {.backend = GetParam()});
    const int64_t sizes[][2] = {{4, 6}, {4, 6}, {5, 6}, {7, 6}, {3, 8}, {9, 2}};
    uint32_t kind = static_cast<uint32_t>(random());
    for (auto [rows, columns] : sizes) {
      Pool arguments = make_arguments(kind, rows, columns), others = twins(arguments);
      SCOPED_TRACE(message("arguments of kind {}, {} x {}", kind % 4, rows, columns));
      EXPECT_NO_THROW(expect_equal(body(arguments), compiled(others)));
      if (random() % 4 == 0) ++kind;
    }
  }
}
TEST_P(RandomPrograms, GiveTheSameWithNumbersOfTheDataInTheirGraphs) {
  auto scope = config::patch(
      {{"dynamo.capture_scalar_outputs", true}, {"dynamo.capture_dynamic_output_shape_ops", true}});
  std::mt19937 random(78);
  for (int i = 0; i < 400 && !HasFailure(); ++i) {
    Program program = random_program(random, 3, 10);
    SCOPED_TRACE("program " + std::to_string(i) + ": " + text_of(program));
    auto body = [program](const Pool& arguments) { return run(program, arguments, Looks::often); };
    auto compiled = compile(body, {.backend = GetParam()});
    for (auto [rows, columns] : {std::pair{4, 6}, {4, 6}, {5, 6}, {4, 6}, {3, 4}}) {
      Pool arguments = make_arguments(static_cast<uint32_t>(i), rows, columns);
      Pool others = twins(arguments);
      EXPECT_NO_THROW(expect_equal(body(arguments), compiled(others)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RandomPrograms,
                         testing::Values("eager", "aot_eager", "debug_nop"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace tenon
