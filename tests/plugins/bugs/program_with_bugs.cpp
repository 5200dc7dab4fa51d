// A program that compiles a function with the backend of its first argument and calls it twice, with
// gradients; with a second argument, a function that looks up this row of a table of three. Its flags
// come from the environment, as a user would give them.
#include <tenon/tenon.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

void look_up(const char* backend, int64_t row) {
  auto f =
      tenon::compile([](const tenon::Tensor& table,
                        const tenon::Tensor& rows) { return tenon::embedding(table, rows) * 2.0; },
                     {.backend = backend});
  tenon::NoGradGuard no_grad;
  f(tenon::ones({3, 4}), tenon::full({2}, row));
}

}  // namespace

int main(int n_args, char** args) try {
  if (n_args == 3) look_up(args[1], std::atoll(args[2]));
  if (n_args != 2) return n_args == 3 ? 0 : 2;
  auto f =
      tenon::compile([](const tenon::Tensor& x) { return tenon::gelu(tenon::mul(x, 2.0)).sum(); },
                     {.backend = args[1]});
  for (int call = 0; call < 2; ++call) {
    tenon::Tensor x = tenon::full({4, 8}, 0.5).requires_grad_();
    f(x).backward();
  }
  std::puts("fine");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "program: %s\n", error.what());
  return 1;
}
