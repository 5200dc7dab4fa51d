// A program that knows Tenon by its installation only: compiles one function with a backend.
#include <tenon/tenon.h>

#include <cstdio>

int main(int argc, char** argv) {
  const char* backend = argc > 1 ? argv[1] : "eager";
  try {
    auto f = tenon::compile([](const tenon::Tensor& x) { return (x * 2).relu().sum(); },
                            {.backend = backend});
    double sum = 0;
    for (int i = 0; i < 2; ++i) sum = f(tenon::ones({3})).item<double>();
    std::printf("%s: %d compile, sum %g\n", backend, static_cast<int>(f.stats().compiles), sum);
    return sum == 6 ? 0 : 1;
  } catch (const tenon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
