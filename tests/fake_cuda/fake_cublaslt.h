// A double of NVIDIA's cuBLASLt over the double of the driver: computes on the host, when the stream
// has come to it.
//
// Model: what the library refuses, the double refuses, too: strides between columns that are less
// than the rows, a product on another device than the handle's, an algorithm that was found for
// another problem, addresses with less alignment than was asked for, a workspace that is missing.
// Products over 64 elements and more take their partial sums through the workspace where there may
// be one, so that a workspace which is somebody's memory shows. Operands are rounded to 19 bits for
// tf32. Tests reach what follows by dlsym on the library.
#pragma once

#include <cstdint>

extern "C" {
struct FakeCublasLtCounts {
  uint64_t plans, products;  // since the start
  // Of the last product:
  int32_t compute;
  uint32_t epilogue, reductions;
  uint64_t workspace_bytes;
  float beta;
};
FakeCublasLtCounts fake_cublaslt_counts();
}
