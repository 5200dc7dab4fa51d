// Packing, and the addresses of a part of a product.
#include "product.h"

namespace microkernel {

int64_t Panels::count() const { return (n + kernels().panel - 1) / kernels().panel; }
int64_t Panels::column(int64_t panel) const {
  ProductBlock block{};
  block.n = n, block.panels = count();
  return block.column(panel, kernels().lanes);
}
int64_t Panels::size() const {
  int64_t lanes = kernels().lanes;
  return k * ((n + lanes - 1) / lanes * lanes);
}

void Panels::pack_rows(int64_t row, int64_t rows, const float* right, int64_t k_stride,
                       int64_t n_stride, int64_t begin, int64_t end, float* packed) const {
  int64_t lanes = kernels().lanes;
  for (int64_t panel = begin; panel < end; ++panel) {
    int64_t first = column(panel), columns = column(panel + 1) - first;
    int64_t width = (columns + lanes - 1) / lanes * lanes;
    kernels().pack({rows, columns, width, right + first * n_stride, k_stride, n_stride,
                    packed + first * k + row * width});
  }
}

void multiply(const Product& product, int64_t row, int64_t row_end, int64_t panel,
              int64_t panel_end) {
  const Panels& panels = product.panels;
  kernels().multiply({row, row_end, panels.k, panels.n, panel, panel_end, panels.count(),
                      product.left, product.left_row, product.left_column, product.right,
                      product.right_row, product.bias, product.result, product.place,
                      product.result_row, product.finish.data(), product.finish.size()});
}

int64_t whole_columns() { return kernels().lanes; }

}  // namespace microkernel
