// Packing, and the addresses of a part of a product.
#include "product.h"

#include <algorithm>
#include <cstddef>

namespace microkernel {

namespace {

const ProductKernels& kernels_of(Element element) {
  const Kernels& all = kernels();
  return element == Element::f32 ? all.f32 : element == Element::f64 ? all.f64 : *all.bf16;
}
int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

bool has_products_of(Element element) { return element != Element::bf16 || kernels().bf16; }

int64_t Panels::count() const {
  int64_t widest = kernels_of(element).panel;
  return std::max((n + widest - 1) / widest, least_count);
}
int64_t Panels::column(int64_t panel) const {
  ProductBlock block{};
  block.n = n, block.panels = count();
  return block.column(panel, kernels_of(element).lanes);
}
int64_t Panels::size() const {
  return rounded_up(k, step_of(element)) * rounded_up(n, kernels_of(element).lanes);
}

void Panels::pack_rows(int64_t row, int64_t rows, const void* right, int64_t k_stride,
                       int64_t n_stride, int64_t begin, int64_t end, void* packed) const {
  const ProductKernels& kernels = kernels_of(element);
  int64_t size = size_of(element), depth = rounded_up(k, step_of(element));
  for (int64_t panel = begin; panel < end; ++panel) {
    int64_t first = column(panel), columns = column(panel + 1) - first;
    int64_t width = rounded_up(columns, kernels.lanes);
    kernels.pack({rows, columns, width,
                  static_cast<const std::byte*>(right) + first * n_stride * size, k_stride,
                  n_stride,
                  static_cast<std::byte*>(packed) + (first * depth + row * width) * size});
  }
}

int64_t PackedLeft::step() const {
  return rounded_up(m, kernels_of(element).lanes) * step_of(element);
}
void PackedLeft::pack(const void* left, int64_t m_stride, int64_t k_stride, int64_t begin,
                      int64_t end, void* packed) const {
  const ProductKernels& kernels = kernels_of(element);
  int64_t size = size_of(element), first = begin * step_of(element);
  kernels.pack({std::min(k, end * step_of(element)) - first, m, rounded_up(m, kernels.lanes),
                static_cast<const std::byte*>(left) + first * k_stride * size, k_stride, m_stride,
                static_cast<std::byte*>(packed) + begin * step() * size});
}

void multiply(const Product& product, int64_t row, int64_t row_end, int64_t panel,
              int64_t panel_end) {
  const Panels& panels = product.panels;
  kernels_of(panels.element)
      .multiply({row, row_end, panels.k, panels.n, panel, panel_end, panels.count(), product.left,
                 product.left_row, product.left_step, product.right, product.right_row,
                 product.bias, product.result, product.is_rounded, product.place,
                 product.result_row, product.finish.data(), product.finish.size()});
}

int64_t whole_columns(Element element) { return kernels_of(element).lanes; }

}  // namespace microkernel
