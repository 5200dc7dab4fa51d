// What emitted code calls: erfinv, digamma and lgamma, powers of integers, and functions of libm.
//
// The names begin with tenon_, so that no optimiser takes them for functions of libm, which may
// write errno; those without are what the code generator itself asks for.
//
#include "runtime_symbols.h"

#include "special_functions.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace inductor {

namespace {

template <class F>
RuntimeSymbol symbol(const char* name, F* function) {
  return {name, reinterpret_cast<void*>(function)};
}

#define TENON_LIBM(name) symbol<double(double)>("tenon_inductor_" #name "_f64", std::name)
#define TENON_LIBM_2(name) symbol<double(double, double)>("tenon_inductor_" #name "_f64", std::name)
const RuntimeSymbol symbols[] = {
    symbol("tenon_inductor_erfinv_f64", erfinv), symbol("tenon_inductor_digamma_f64", digamma),
    symbol("tenon_inductor_lgamma_f64", lgamma), TENON_LIBM(exp2), TENON_LIBM(expm1),
    TENON_LIBM(log2), TENON_LIBM(log10), TENON_LIBM(log1p), TENON_LIBM(sin), TENON_LIBM(cos),
    TENON_LIBM(tan), TENON_LIBM(asin), TENON_LIBM(acos), TENON_LIBM(atan), TENON_LIBM(sinh),
    TENON_LIBM(cosh), TENON_LIBM(asinh), TENON_LIBM(acosh), TENON_LIBM(atanh), TENON_LIBM(erfc),
    TENON_LIBM_2(pow), TENON_LIBM_2(atan2), symbol("tenon_integer_power", integer_power),
    symbol<double(double, double)>("tenon_real_fmod", std::fmod),
    // Those that the code generator itself calls where the processor lacks the instruction.
    symbol<float(float, float, float)>("fmaf", std::fma),
    symbol<double(double, double, double)>("fma", std::fma),
    symbol<float(float)>("rintf", std::rint), symbol<double(double)>("rint", std::rint),
    symbol<float(float)>("floorf", std::floor), symbol<double(double)>("floor", std::floor),
    symbol<float(float)>("ceilf", std::ceil), symbol<double(double)>("ceil", std::ceil),
    symbol<float(float)>("truncf", std::trunc), symbol<double(double)>("trunc", std::trunc),
    symbol("memset", std::memset), symbol("memcpy", std::memcpy), symbol("memmove", std::memmove)};
#undef TENON_LIBM
#undef TENON_LIBM_2

}  // namespace

std::span<const RuntimeSymbol> runtime_symbols() { return symbols; }

}  // namespace inductor
