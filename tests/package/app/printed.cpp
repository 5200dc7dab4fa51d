// The object that item() gives, where printf() reads a double.
#include <tenon/tenon.h>

#include <cstdio>

void print(const tenon::Tensor& loss) { std::printf("%f\n", loss.item<double>()); }
