// The call stack by unwinding; names by the dynamic symbol tables.
#include "report/stack.h"

#include "config/flags.h"
#include "core/error.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

namespace tenon::report {

namespace {

std::string frame_text(int number, void* address) {
  Dl_info info{};
  std::string line = message("  #{} ", number);
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr)
    return line + message("{}", reinterpret_cast<uint64_t>(address));
  std::string library = std::filesystem::path(info.dli_fname).filename().string();
  auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
  if (info.dli_sname == nullptr) return line + message("{}+{}", library, offset);
  return line + message("{} ({}+{})", demangled(info.dli_sname), library, offset);
}

}  // namespace

std::string demangled(const std::string& name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text ? std::string(text.get()) : name;
}

std::string stack_text(int skip) {
  constexpr int most_frames = 256;
  void* addresses[most_frames];
  int n = backtrace(addresses, most_frames);
  std::string out;
  for (int i = skip; i < n; ++i) out += frame_text(i - skip, addresses[i]) + "\n";
  return out;
}

std::string program_stack(int64_t most) {
  constexpr int most_frames = 256;
  void* addresses[most_frames];
  int n = backtrace(addresses, most_frames);
  Dl_info own{}, info{};
  dladdr(reinterpret_cast<void*>(&program_stack), &own);
  std::string out;
  for (int i = 0, shown = 0; i < n && shown < most; ++i) {
    bool is_ours = dladdr(addresses[i], &info) != 0 && info.dli_fbase == own.dli_fbase;
    if (!is_ours) out += frame_text(shown++, addresses[i]) + "\n";
  }
  return out;
}

std::string stack_if_verbose() {
  if (!config::flags().dynamo.verbose) return "";
  return "\nthe stack, innermost frame first:\n" + stack_text(2);
}

}  // namespace tenon::report
