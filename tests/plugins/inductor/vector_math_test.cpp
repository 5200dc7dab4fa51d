// Elementary functions of the code generators: error in ulp, limits, and that a width or a set of
// instructions changes no bit. Each function is compiled into a loop and compared with libm in the
// next wider type. TENON_EXHAUSTIVE=1 takes all 2^32 floats in place of every 1009th, a minute or
// two each; choose some by --gtest_filter=*KeepsItsBound/exp. TENON_PRINT_ULP=1 prints the errors.
#include <inductor_runtime/runtime_symbols.h>
#include <lanes/vector_math.h>

#include <gtest/gtest.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/DCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <tenon/plugin.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <numbers>
#include <string>
#include <thread>
#include <vector>

namespace inductor {
namespace {

using lanes::emit_math;
using lanes::is_math;
using lanes::math_cost;

using Wide = long double;

template <class T>
T sigmoid_of(T x) {
  T e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}

Wide erfinv(Wide x) {
  if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? x / 0.0L : std::nan("");
  // Bisection for the sign and size, then Newton; erfc keeps the digits near 1.
  Wide a = std::fabs(x), low = 0, high = 20;
  for (int i = 0; i < 12; ++i) {
    Wide middle = (low + high) / 2;
    ((a < 0.5L ? std::erf(middle) < a : std::erfc(middle) > 1 - a) ? low : high) = middle;
  }
  Wide y = a < 0.01L ? a * 0.8862269L : low;
  for (int i = 0; i < 7; ++i) {
    Wide miss = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    y -= miss * std::sqrt(std::numbers::pi_v<Wide>) / 2 * std::exp(y * y);
  }
  return std::copysign(y, x);
}

Wide digamma(Wide x) {
  if (x == 0) return std::copysign(std::numeric_limits<Wide>::infinity(), -x);
  if (x < 0) {
    Wide part = x - std::nearbyint(x), pi = std::numbers::pi_v<Wide>;
    return part == 0 ? std::nan("") : digamma(1 - x) - pi / std::tan(pi * part);
  }
  Wide sum = 0;
  for (; x < 24; x += 1) sum -= 1 / x;
  Wide z = 1 / (x * x);
  Wide tail = z * (1 / 252.0L - z * (1 / 240.0L - z * (1 / 132.0L - z * (691 / 32760.0L))));
  return sum + std::log(x) - 0.5L / x - z * (1 / 12.0L - z * (1 / 120.0L - tail));
}

/// A reference in double for floats, and in long double for doubles. Of doubles, exp, log, tanh,
/// sigmoid and erf are formulas; the other bounds are what is asked of libm.
struct Function {
  const char* name;
  uint16_t code;
  double ulp_f32, ulp_f64;  // bounds of the error
  double (*narrow)(double);
  Wide (*wide)(Wide);
  bool slow = false;  // the reference takes microseconds
};

template <Wide (*f)(Wide)>
double in_wide(double x) {
  return static_cast<double>(f(x));
}

// std::lgamma would write a global.
double lgamma_of(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
Wide lgamma_of(Wide x) {
  int sign;
  return lgammal_r(x, &sign);
}

const Function functions[] = {
    {"exp", TN_F_EXP, 1.0, 1.0, std::exp, std::exp},
    {"exp2", TN_F_EXP2, 1.0, 2.0, std::exp2, std::exp2},
    {"expm1", TN_F_EXPM1, 0.6, 2.0, std::expm1, std::expm1},
    {"log", TN_F_LOG, 1.5, 1.0, std::log, std::log},
    {"log2", TN_F_LOG2, 0.6, 2.0, std::log2, std::log2},
    {"log10", TN_F_LOG10, 0.6, 2.0, std::log10, std::log10},
    {"log1p", TN_F_LOG1P, 0.6, 2.0, std::log1p, std::log1p},
    {"sin", TN_F_SIN, 0.6, 2.0, std::sin, std::sin},
    {"cos", TN_F_COS, 0.6, 2.0, std::cos, std::cos},
    {"tan", TN_F_TAN, 0.6, 2.0, std::tan, std::tan},
    {"asin", TN_F_ASIN, 0.6, 2.0, std::asin, std::asin},
    {"acos", TN_F_ACOS, 0.6, 2.0, std::acos, std::acos},
    {"atan", TN_F_ATAN, 0.6, 2.0, std::atan, std::atan},
    {"sinh", TN_F_SINH, 0.6, 3.0, std::sinh, std::sinh},
    {"cosh", TN_F_COSH, 0.6, 3.0, std::cosh, std::cosh},
    {"tanh", TN_F_TANH, 2.0, 2.0, std::tanh, std::tanh},
    {"asinh", TN_F_ASINH, 0.6, 3.0, std::asinh, std::asinh},
    {"acosh", TN_F_ACOSH, 0.6, 3.0, std::acosh, std::acosh},
    {"atanh", TN_F_ATANH, 0.6, 3.0, std::atanh, std::atanh},
    {"sigmoid", TN_F_SIGMOID, 2.5, 1.5, sigmoid_of, sigmoid_of},
    {"erf", TN_F_ERF, 1.5, 2.0, std::erf, std::erf},
    {"erfc", TN_F_ERFC, 0.6, 6.0, std::erfc, std::erfc},
    {"lgamma", TN_F_LGAMMA, 0.6, 10.0, lgamma_of, lgamma_of},
    {"erfinv", TN_F_ERFINV, 0.6, 4.0, in_wide<erfinv>, erfinv, true},
    // In double its error is one of the terms that cancel at its roots.
    {"digamma", TN_F_DIGAMMA, 0.6, 1e6, in_wide<digamma>, digamma, true},
};

struct Variant {
  bool is_double;
  unsigned lanes;  // 1: a scalar
  bool features;   // names the instructions of this machine to emit_math()
};

using Kernel = void (*)(const void* x, const void* y, void* out, int64_t n);

bool is_binary(uint16_t code) { return code == TN_F_POW || code == TN_F_ATAN2; }

class Compiler {
 public:
  Compiler() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto target = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
    features_ = target.getFeatures().getString();
    jit_ = llvm::cantFail(
        llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(target)).create());
    llvm::orc::SymbolMap symbols;
    for (const RuntimeSymbol& symbol : runtime_symbols())
      symbols[jit_->mangleAndIntern(symbol.name)] = {
          llvm::orc::ExecutorAddr::fromPtr(symbol.address), llvm::JITSymbolFlags::Exported};
    llvm::cantFail(jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols)));
  }

  Kernel compile(uint16_t code, Variant variant) {
    auto context = std::make_unique<llvm::LLVMContext>();
    std::string name = "kernel" + std::to_string(count_++);
    auto module = std::make_unique<llvm::Module>(name, *context);
    module->setDataLayout(jit_->getDataLayout());
    llvm::Function* kernel = write_loop(*module, name, code, variant);
    EXPECT_FALSE(llvm::verifyFunction(*kernel, &llvm::errs()));
    optimise(*kernel);
    llvm::cantFail(
        jit_->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
    return llvm::cantFail(jit_->lookup(name)).toPtr<Kernel>();
  }

 private:
  llvm::Function* write_loop(llvm::Module& module, const std::string& name, uint16_t code,
                             Variant variant) {
    llvm::IRBuilder<> b(module.getContext());
    llvm::Type *pointer = b.getPtrTy(), *element = b.getFloatTy();
    if (variant.is_double) element = b.getDoubleTy();
    llvm::Type* type = element;
    if (variant.lanes > 1) type = llvm::FixedVectorType::get(element, variant.lanes);
    auto* signature =
        llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, pointer, b.getInt64Ty()}, false);
    auto* f = llvm::Function::Create(signature, llvm::Function::ExternalLinkage, name, module);
    f->addFnAttr("prefer-vector-width", "512");
    if (variant.features) f->addFnAttr("target-features", features_);

    auto* entry = llvm::BasicBlock::Create(b.getContext(), "entry", f);
    auto* body = llvm::BasicBlock::Create(b.getContext(), "body", f);
    auto* done = llvm::BasicBlock::Create(b.getContext(), "done", f);
    b.SetInsertPoint(entry);
    b.CreateBr(body);
    b.SetInsertPoint(body);
    llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
    auto at = [&](int operand) { return b.CreateGEP(element, f->getArg(operand), i); };
    llvm::Align align(element->getScalarSizeInBits() / 8);
    llvm::Value* x = b.CreateAlignedLoad(type, at(0), align);
    llvm::Value* y = is_binary(code) ? b.CreateAlignedLoad(type, at(1), align) : nullptr;
    b.CreateAlignedStore(emit_math(b, code, x, y), at(2), align);
    llvm::Value* next = b.CreateAdd(i, b.getInt64(variant.lanes));
    i->addIncoming(b.getInt64(0), entry);
    i->addIncoming(next, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpSLT(next, f->getArg(3)), body, done);
    b.SetInsertPoint(done);
    b.CreateRetVoid();
    return f;
  }

  static void optimise(llvm::Function& f) {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager graph;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(graph);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, graph, modules);
    llvm::FunctionPassManager passes;
    passes.addPass(llvm::EarlyCSEPass());
    passes.addPass(llvm::InstCombinePass());
    passes.addPass(llvm::SimplifyCFGPass());
    passes.addPass(llvm::DCEPass());
    passes.run(f, functions);
  }

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::string features_;
  int count_ = 0;
};

Compiler& compiler() {
  static Compiler one;
  return one;
}

/// |found - expected| in units of the last place that T has at `expected`; infinite where a limit,
/// NaN or the sign of 0 is missed.
template <class T, class R>
double ulp_error(T found, R expected) {
  using Limits = std::numeric_limits<T>;
  double infinite = std::numeric_limits<double>::infinity();
  if (std::isnan(expected) || std::isnan(found))
    return std::isnan(expected) && std::isnan(found) ? 0 : infinite;
  if (std::isinf(expected)) return found == static_cast<T>(expected) ? 0 : infinite;
  if (std::signbit(found) != std::signbit(expected)) return infinite;
  if (expected == 0) return found == 0 ? 0 : infinite;
  // Overflow stands for the power of two after the last number.
  R overflow = std::ldexp(R(1), Limits::max_exponent);
  R value = std::isinf(found) ? std::copysign(overflow, expected) : R(found);
  R clipped = std::fabs(expected) > overflow ? std::copysign(overflow, expected) : expected;
  int exponent = std::max(std::ilogb(clipped), Limits::min_exponent - 1);
  return static_cast<double>(std::fabs(value - clipped) *
                             std::ldexp(R(1), Limits::digits - 1 - exponent));
}

struct Worst {
  double ulp = 0, x = 0, y = 0, found = 0;
  void take(const Worst& other) {
    if (!(other.ulp <= ulp)) *this = other;
  }
};
std::ostream& operator<<(std::ostream& out, const Worst& w) {
  return out << std::hexfloat << "x " << w.x << " y " << w.y << " found " << w.found;
}

bool exhaustive() { return std::getenv("TENON_EXHAUSTIVE") != nullptr; }

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  T inf = Limits::infinity();
  std::vector<T> out{
      0, inf, Limits::quiet_NaN(), Limits::max(), Limits::min(), Limits::denorm_min()};
  // Where a formula changes arm, a result over- or underflows, or a function has a limit.
  for (double point : {0.25,   0.5,    0.55,   0.625,  0.75,   0.93,   1.0,    1.5,    2.0,   3.0,
                       3.93,   4.0,    5.5,    8.6,    9.02,   10.0,   10.06,  17.0,   19.1,  22.0,
                       27.3,   44.0,   87.34,  88.0,   88.73,  89.0,   89.42,  103.98, 104.0, 126.0,
                       127.0,  128.0,  149.0,  150.0,  151.0,  708.4,  709.8,  710.5,  745.2, 746.0,
                       1024.0, 1074.0, 0x1p23, 0x1p24, 0x1p31, 0x1p50, 0x1p76, 0x1p102}) {
    T low = static_cast<T>(point), high = low;
    for (int i = 0; i < 8; ++i) {
      out.insert(out.end(), {low, high});
      low = std::nextafter(low, -inf), high = std::nextafter(high, inf);
    }
  }
  size_t positive = out.size();
  for (size_t i = 0; i < positive; ++i) out.push_back(-out[i]);
  return out;
}

/// Sample i of T, and with `spread` a number whose logarithm is evenly distributed near 1.
float bit_sample(uint64_t i, float) { return std::bit_cast<float>(static_cast<uint32_t>(i)); }
double bit_sample(uint64_t i, double) { return std::bit_cast<double>(i * 0x9e3779b97f4a7c15); }
template <class T>
T near_sample(uint64_t i) {
  uint64_t mixed = (i ^ 0x51ed270b) * 0xd6e8feb86659fd93;
  double size = std::exp2(static_cast<double>(mixed >> 40) / 0x1p20 - 8);
  return static_cast<T>((mixed & 1) != 0 ? -size : size);
}

constexpr int64_t block = 4096;

/// Values in blocks; `y` of binary functions goes through all sizes against each x.
template <class T>
struct Block {
  std::vector<T> x = std::vector<T>(block), y = x, out = x;
  void fill(uint64_t first, uint64_t stride) {
    for (uint64_t i = 0; i < block; ++i) {
      uint64_t sample = (first + i) * stride;
      bool near = std::is_same_v<T, double> ? i % 2 != 0 : false;
      x[i] = near ? near_sample<T>(sample) : bit_sample(sample, T());
      y[i] = i % 4 == 0 ? bit_sample(sample * 2654435761u, T()) : near_sample<T>(sample);
      if (i % 4 == 1) y[i] = std::nearbyint(y[i]);
      if (i % 4 == 3) x[i] = near_sample<T>(sample + 77);
    }
  }
};

template <class T, class Reference>
Worst worst_of(Kernel kernel, Block<T>& values, Reference reference) {
  kernel(values.x.data(), values.y.data(), values.out.data(), block);
  Worst worst;
  for (int64_t i = 0; i < block; ++i) {
    T x = values.x[i], y = values.y[i], found = values.out[i];
    worst.take({ulp_error(found, reference(x, y)), double(x), double(y), double(found)});
  }
  return worst;
}

/// Blocks 0 .. count - 1, spread over the threads.
template <class T, class Reference>
Worst worst_of_samples(Kernel kernel, uint64_t count, uint64_t stride, Reference reference) {
  Worst worst;
  std::mutex worst_lock;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> team;
  for (unsigned t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      Block<T> values;
      Worst own;
      for (uint64_t i = t; i < count; i += threads) {
        values.fill(i * block, stride);
        own.take(worst_of(kernel, values, reference));
      }
      std::lock_guard lock(worst_lock);
      worst.take(own);
    });
  team.clear();
  return worst;
}

template <class T, class Reference>
Worst worst_of_specials(Kernel kernel, bool binary, Reference reference) {
  std::vector<T> specials = special_values<T>();
  Block<T> values;
  Worst worst;
  size_t count = binary ? specials.size() * specials.size() : specials.size();
  for (size_t first = 0; first < count; first += block) {
    for (size_t i = 0; i < block; ++i) {
      size_t at = (first + i) % count;
      values.x[i] = specials[at % specials.size()];
      values.y[i] = specials[at / specials.size()];
    }
    worst.take(worst_of(kernel, values, reference));
  }
  return worst;
}

uint64_t float_stride() { return exhaustive() ? 1 : 1009; }

template <class T, class Reference>
void expect_within(const char* name, uint16_t code, double bound, uint64_t n_samples,
                   uint64_t stride, Reference reference) {
  bool is_double = std::is_same_v<T, double>;
  Kernel kernel = compiler().compile(code, {is_double, is_double ? 8u : 16u, true});
  Worst worst = worst_of_specials<T>(kernel, is_binary(code), reference);
  EXPECT_LE(worst.ulp, bound) << name << " of special values: " << worst;
  worst.take(worst_of_samples<T>(kernel, (n_samples + block - 1) / block, stride, reference));
  EXPECT_LE(worst.ulp, bound) << name << ": " << worst;
  ::testing::Test::RecordProperty(name, std::to_string(worst.ulp));
  if (std::getenv("TENON_PRINT_ULP")) printf("%-8s %.3f ulp, bound %.1f\n", name, worst.ulp, bound);
}

class VectorMathOfFloats : public ::testing::TestWithParam<Function> {};
class VectorMathOfDoubles : public ::testing::TestWithParam<Function> {};

TEST_P(VectorMathOfFloats, KeepsItsBound) {
  const Function& f = GetParam();
  uint64_t stride = f.slow ? 100003 : float_stride();
  expect_within<float>(f.name, f.code, f.ulp_f32, 0x1p32 / stride, stride,
                       [&](double x, double) { return f.narrow(x); });
}

TEST_P(VectorMathOfDoubles, KeepsItsBound) {
  const Function& f = GetParam();
  expect_within<double>(f.name, f.code, f.ulp_f64, f.slow ? 20000 : 100000, 1,
                        [&](Wide x, Wide) { return f.wide(x); });
}

std::string name_of(const ::testing::TestParamInfo<Function>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, VectorMathOfFloats, ::testing::ValuesIn(functions), name_of);
INSTANTIATE_TEST_SUITE_P(All, VectorMathOfDoubles, ::testing::ValuesIn(functions), name_of);

TEST(VectorMath, FunctionsOfTwoFloatsKeepTheirBounds) {
  uint64_t stride = float_stride();
  expect_within<float>("pow", TN_F_POW, 0.6, 0x1p32 / stride, stride,
                       [](double x, double y) { return std::pow(x, y); });
  expect_within<float>("atan2", TN_F_ATAN2, 0.6, 0x1p32 / stride, stride,
                       [](double x, double y) { return std::atan2(x, y); });
}

TEST(VectorMath, FunctionsOfTwoDoublesKeepTheirBounds) {
  expect_within<double>("pow", TN_F_POW, 2.0, 100000, 1,
                        [](Wide x, Wide y) { return std::pow(x, y); });
  expect_within<double>("atan2", TN_F_ATAN2, 2.0, 100000, 1,
                        [](Wide x, Wide y) { return std::atan2(x, y); });
}

template <class T>
void expect_same_bits(uint16_t code, const char* what, Variant a, Variant b) {
  Block<T> values;
  Kernel first = compiler().compile(code, a), second = compiler().compile(code, b);
  std::vector<T> specials = special_values<T>(), other(block);
  for (int round = 0; round < 5; ++round) {
    values.fill(static_cast<uint64_t>(round) * block, 262139);
    if (round == 0) std::copy(specials.begin(), specials.end(), values.x.begin());
    first(values.x.data(), values.y.data(), values.out.data(), block);
    second(values.x.data(), values.y.data(), other.data(), block);
    for (int64_t i = 0; i < block; ++i) {
      bool same = std::memcmp(&values.out[i], &other[i], sizeof(T)) == 0;
      bool both_nan = std::isnan(values.out[i]) && std::isnan(other[i]);
      ASSERT_TRUE(same || both_nan) << what << " code " << code << " of " << std::hexfloat
                                    << values.x[i] << ": " << values.out[i] << ", " << other[i];
    }
  }
}

TEST(VectorMath, WidthsAndInstructionsChangeNoBit) {
  for (uint16_t code = 0; code < TN_F_COUNT; ++code) {
    if (!is_math(code)) continue;
    EXPECT_GT(math_cost(code), 0);
    expect_same_bits<float>(code, "scalar", {false, 16, true}, {false, 1, true});
    expect_same_bits<float>(code, "8 lanes", {false, 16, true}, {false, 8, true});
    expect_same_bits<float>(code, "plain", {false, 16, true}, {false, 16, false});
    expect_same_bits<double>(code, "scalar", {true, 8, true}, {true, 1, true});
    expect_same_bits<double>(code, "4 lanes", {true, 8, true}, {true, 4, true});
    expect_same_bits<double>(code, "plain", {true, 8, true}, {true, 8, false});
  }
}

TEST(VectorMath, OtherCodesAreNotTaken) {
  EXPECT_FALSE(is_math(TN_F_ADD));
  EXPECT_FALSE(is_math(TN_F_COUNT));
  EXPECT_EQ(math_cost(TN_F_ADD), 0);
}

}  // namespace
}  // namespace inductor
