// A program that compiles a function with the backend of its first argument and calls it twice, with
// gradients. Its flags come from the environment, as a user would give them.
#include <tenon/tenon.h>

#include <cstdio>
#include <exception>

int main(int n_args, char** args) try {
  if (n_args != 2) return 2;
  auto f = tenon::compile(
      [](const tenon::Tensor& x) { return tenon::gelu(tenon::mul(x, 2.0)).sum(); },
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
