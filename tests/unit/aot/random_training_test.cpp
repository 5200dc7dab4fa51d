// Random programs on the tape: whatever a body does with views, writes, detach() and NoGradGuard,
// compiled code gives its values and its gradients, and results need gradients where the body's do.
#include "core/tensor/tensor_impl.h"
#include "unit/random_program.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

Tensor view_of(const Tensor& t, uint32_t kind, uint32_t n) {
  if (t.dim() == 0) return t.unsqueeze(0);
  int64_t d = pick_dim(t, n);
  switch (kind % 5) {
    case 0:
      return t.transpose(0, d);
    case 1:
      return t.narrow(d, 0, (t.size(d) + 1) / 2);
    case 2:
      return t.select(d, -1);
    case 3:
      return t.reshape({-1});
    default:
      return t.detach();
  }
}

Tensor compute(const Tensor& a, const Tensor& b, uint32_t kind, uint32_t n) {
  switch (kind % 7) {
    case 0:
      return a + fitting(a, b);
    case 1:
      return a * fitting(a, b);
    case 2:
      return a.sin();
    case 3:
      return a.dim() ? a.sum(pick_dim(a, n), n % 2 == 0) : a.neg();
    case 4:
      return a.tanh();
    case 5:
      return a.relu();
    default:
      return where(a > 0.0, a, a * fitting(a, b));
  }
}

void write(Tensor& t, const Tensor& value, uint32_t kind) {
  Tensor v = fitting(t, value);
  switch (kind % 4) {
    case 0:
      t.add_(v);
      break;
    case 1:
      t.mul_(v);
      break;
    case 2:
      t.copy_(v);
      break;
    default:
      t.mul_(0.5);
  }
}

Pool run(const Program& program, Pool pool) {
  for (const Statement& s : program) {
    std::optional<NoGradGuard> off;
    if (s.n % 7 == 0) off.emplace();
    Tensor a = pool[s.a % pool.size()], b = pool[s.b % pool.size()];
    uint32_t kind = s.n / 7;
    switch (s.op % 6) {
      case 0:
      case 1:
      case 2:
        pool.push_back(compute(a, b, kind, kind / 7));
        break;
      case 3:
      case 4:
        pool.push_back(view_of(a, kind, kind / 5));
        break;
      default:
        write(a, b, kind);
    }
  }
  return pool;
}

/// Two leaves, of which the second goes in as a result of an op, and a tensor without gradient.
struct Arguments {
  Pool leaves, arguments;

  explicit Arguments(uint64_t seed, int64_t rows = 3, int64_t columns = 4) {
    manual_seed(seed);
    leaves = {randn({rows, columns}, Dtype::f64), randn({rows, columns}, Dtype::f64)};
    Tensor plain = randn({rows, columns}, Dtype::f64);
    for (Tensor& leaf : leaves) leaf.requires_grad_();
    arguments = {leaves[0], leaves[1] * 1.5, plain};
  }
};

// One number out of all results that need a gradient, each weighed otherwise.
Tensor loss_of(const Pool& results) {
  Tensor loss = zeros({}, Dtype::f64);
  double weight = 1;
  for (const Tensor& t : results) {
    weight += 0.37;
    if (t.requires_grad()) loss = loss + (t * weight).cos().sum();
  }
  return loss;
}

void expect_equal(const Tensor& expected, const Tensor& found, const std::string& what) {
  ASSERT_EQ(expected.defined(), found.defined()) << what;
  if (!expected.defined()) return;
  auto e = expected.detach().reshape({-1}).to_vector<double>();
  auto f = found.detach().reshape({-1}).to_vector<double>();
  EXPECT_THAT(f, testing::Pointwise(testing::NanSensitiveDoubleNear(1e-9), e)) << what;
}

// What the body gives, or nothing where the tape forbids one of its writes.
std::optional<std::pair<Arguments, Pool>> run_body(const Program& program, uint64_t seed,
                                                   int64_t rows, int64_t columns) {
  Arguments eager(seed, rows, columns);
  try {
    Pool expected = run(program, eager.arguments);
    loss_of(expected).backward();
    return std::pair{eager, expected};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

using Compiled = std::function<Pool(const Pool&)>;

void compare_call(const Program& program, const Compiled& compiled, uint64_t seed, int64_t rows,
                  int64_t columns) {
  SCOPED_TRACE(message("{} x {}", rows, columns));
  auto body = run_body(program, seed, rows, columns);
  if (!body) return;
  auto& [eager, expected] = *body;
  Arguments again(seed, rows, columns);
  Pool found = compiled(again.arguments);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_equal(expected[i], found[i], message("result {}", i));
    EXPECT_EQ(expected[i].requires_grad(), found[i].requires_grad()) << "result " << i;
    for (size_t k = 0; k < i; ++k)
      EXPECT_EQ(shares_storage(expected[i], expected[k]), shares_storage(found[i], found[k]))
          << "memory of " << i << " and " << k;
  }
  ASSERT_NO_THROW(loss_of(found).backward());
  for (size_t i = 0; i < eager.leaves.size(); ++i)
    expect_equal(eager.leaves[i].grad(), again.leaves[i].grad(), message("gradient {}", i));
}

using Sizes = std::vector<std::pair<int64_t, int64_t>>;

void compare(const Program& program, const char* backend, uint64_t seed, const Sizes& sizes) {
  Compiled compiled = compile([program](const Pool& arguments) { return run(program, arguments); },
                              {.backend = backend});
  for (auto [rows, columns] : sizes) compare_call(program, compiled, seed, rows, columns);
}

class RandomTraining : public testing::TestWithParam<const char*> {};

int n_programs() {
  const char* wanted = std::getenv("TENON_RANDOM_PROGRAMS");
  return wanted ? std::atoi(wanted) : 400;
}

void compare_all(const char* backend, uint32_t seed, const Sizes& sizes = {{3, 4}, {3, 4}}) {
  std::mt19937 random(seed);
  for (int i = 0; i < n_programs() && !testing::Test::HasFailure(); ++i) {
    Program program = random_program(random, 2, 8);
    SCOPED_TRACE(message("program {}: {}", i, text_of(program)));
    compare(program, backend, static_cast<uint64_t>(i), sizes);
  }
}

TEST_P(RandomTraining, GivesTheGradientsOfTheBody) { compare_all(GetParam(), 91); }

TEST_P(RandomTraining, GivesThemUnderEveryMemoryBudget) {
  for (double budget : {0.5, 0.0}) {
    auto flag = config::patch({{"functorch.activation_memory_budget", budget}});
    compare_all(GetParam(), 92);
  }
}

// From the second size on sizes are symbols.
TEST_P(RandomTraining, GivesThemForOtherSizes) {
  compare_all(GetParam(), 93, {{3, 4}, {5, 4}, {6, 2}, {2, 2}, {1, 3}});
}

INSTANTIATE_TEST_SUITE_P(Backends, RandomTraining, testing::Values("aot_eager", "debug_nop"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace tenon
