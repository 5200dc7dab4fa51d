// What devices may do to f32 operands of matrix products, as the calling thread wants it.
#pragma once

#include <cstdint>

namespace tenon {

enum class MatmulPrecision : uint8_t { highest, high, medium };

/// Of the thread. Compiled code is for one of them: guards, keys and requests hold it.
extern thread_local constinit MatmulPrecision matmul_precision;

inline bool allows_tf32() { return matmul_precision != MatmulPrecision::highest; }

}  // namespace tenon
