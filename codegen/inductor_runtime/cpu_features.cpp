// Features of x86-64: where CPUID says whether they are there. References: Intel, Software
// Developer's Manual 2A, CPUID; AMD, Architecture Programmer's Manual 3, appendix E.
#include "cpu_features.h"

#include <cpuid.h>

#include <cstdint>
#include <string_view>

namespace inductor {

namespace {

enum Register : uint8_t { eax, ebx, ecx, edx };
/// What the system must save at a switch of threads: bits of XCR0.
enum State : uint64_t { plain = 0, avx = 0x6, avx512 = 0xe6, amx = 0x60006 };

struct Feature {
  std::string_view name;
  uint32_t leaf, part;
  Register in;
  uint8_t bit;
  State state = plain;
};

constexpr Feature known[] = {
    {"cmov", 1, 0, edx, 15},
    {"sse2", 1, 0, edx, 26},
    {"sse3", 1, 0, ecx, 0},
    {"pclmul", 1, 0, ecx, 1},
    {"ssse3", 1, 0, ecx, 9},
    {"fma", 1, 0, ecx, 12, avx},
    {"cx16", 1, 0, ecx, 13},
    {"sse4.1", 1, 0, ecx, 19},
    {"sse4.2", 1, 0, ecx, 20},
    {"movbe", 1, 0, ecx, 22},
    {"popcnt", 1, 0, ecx, 23},
    {"aes", 1, 0, ecx, 25},
    {"avx", 1, 0, ecx, 28, avx},
    {"f16c", 1, 0, ecx, 29, avx},
    {"bmi", 7, 0, ebx, 3},
    {"avx2", 7, 0, ebx, 5, avx},
    {"bmi2", 7, 0, ebx, 8},
    {"avx512f", 7, 0, ebx, 16, avx512},
    {"avx512dq", 7, 0, ebx, 17, avx512},
    {"adx", 7, 0, ebx, 19},
    {"avx512ifma", 7, 0, ebx, 21, avx512},
    {"avx512cd", 7, 0, ebx, 28, avx512},
    {"sha", 7, 0, ebx, 29},
    {"avx512bw", 7, 0, ebx, 30, avx512},
    {"avx512vl", 7, 0, ebx, 31, avx512},
    {"avx512vbmi", 7, 0, ecx, 1, avx512},
    {"avx512vbmi2", 7, 0, ecx, 6, avx512},
    {"gfni", 7, 0, ecx, 8},
    {"vaes", 7, 0, ecx, 9, avx},
    {"vpclmulqdq", 7, 0, ecx, 10, avx},
    {"avx512vnni", 7, 0, ecx, 11, avx512},
    {"avx512bitalg", 7, 0, ecx, 12, avx512},
    {"avx512vpopcntdq", 7, 0, ecx, 14, avx512},
    {"movdiri", 7, 0, ecx, 27},
    {"movdir64b", 7, 0, ecx, 28},
    {"avx512vp2intersect", 7, 0, edx, 8, avx512},
    {"amx-bf16", 7, 0, edx, 22, amx},
    {"avx512fp16", 7, 0, edx, 23, avx512},
    {"amx-tile", 7, 0, edx, 24, amx},
    {"amx-int8", 7, 0, edx, 25, amx},
    {"avxvnni", 7, 1, eax, 4, avx},
    {"avx512bf16", 7, 1, eax, 5, avx512},
    {"avxifma", 7, 1, eax, 23, avx},
    {"avxvnniint8", 7, 1, edx, 4, avx},
    {"avxneconvert", 7, 1, edx, 5, avx},
    {"sahf", 0x80000001, 0, ecx, 0},
    {"lzcnt", 0x80000001, 0, ecx, 5},
    {"sse4a", 0x80000001, 0, ecx, 6},
    {"xop", 0x80000001, 0, ecx, 11, avx},
    {"fma4", 0x80000001, 0, ecx, 16, avx},
    {"tbm", 0x80000001, 0, ecx, 21},
};

uint64_t saved_state() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned system_saves = 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & system_saves)) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

bool is_there(const Feature& f) {
  static const uint64_t saved = saved_state();
  if ((saved & f.state) != f.state) return false;
  unsigned r[4] = {};
  if (!__get_cpuid_count(f.leaf, f.part, &r[eax], &r[ebx], &r[ecx], &r[edx])) return false;
  return (r[f.in] >> f.bit) & 1;
}

const Feature* find(std::string_view name) {
  for (const Feature& f : known)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace

std::string missing_features(const std::string& features) {
  std::string missing;
  std::string_view rest = features;
  while (!rest.empty()) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(one.size() == rest.size() ? one.size() : one.size() + 1);
    if (!one.starts_with('+')) continue;
    const Feature* f = find(one.substr(1));
    if (f && !is_there(*f)) missing += (missing.empty() ? "" : ", ") + std::string(f->name);
  }
  return missing;
}

}  // namespace inductor
