// Tests at each level of vectors that this machine has.
#pragma once

#include <microkernel/kernels.h>

#include <vector>

/// The machine's usual level, then all narrower ones.
inline std::vector<const microkernel::Kernels*> levels_here() {
  const microkernel::Kernels& usual = microkernel::kernels();
  std::vector<const microkernel::Kernels*> out{&usual};
  if (usual.bf16) out.push_back(&microkernel::kernels_avx512);
  if (usual.f32.lanes == microkernel::kernels_avx512.f32.lanes)
    out.push_back(&microkernel::kernels_avx2);
  if (&usual != &microkernel::kernels_base) out.push_back(&microkernel::kernels_base);
  return out;
}

/// Runs check() at each of them.
template <class Check>
void at_each_level(Check&& check) {
  const microkernel::Kernels& usual = microkernel::kernels();
  for (const microkernel::Kernels* level : levels_here()) {
    microkernel::use(*level);
    check();
  }
  microkernel::use(usual);
}
