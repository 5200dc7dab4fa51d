// The vendor's libraries that Tenon can use, and where they are.
#include "installation.h"

#include "driver.h"
#include "libraries.h"

#include <tenon/plugin.hpp>

namespace tenon::cuda {

namespace {

using plugin::text;

/// One function of the library is called, which says its version.
struct Library {
  const char *file, *version_function;
  const char* without;  // what happens then
};
constexpr Library libraries[] = {
    {"libcublasLt.so.13", "cublasLtGetVersion",
     "; matrix products then go by Tenon's own kernels, without tensor cores"},
    {"libcudnn.so.9", "cudnnGetVersion", ""}};
constexpr const char* files[] = {"libnvJitLink.so.13", "nvvm/libdevice/libdevice.10.bc"};

std::string quoted(std::string_view value) {
  std::string out = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

std::string field(std::string_view name, std::string_view value) {
  return quoted(name) + ": " + quoted(value);
}

// 130100 is 13.1.0.
std::string version_of(const Library& library) {
  auto version =
      reinterpret_cast<size_t (*)()>(library_symbol(library.file, library.version_function));
  size_t n = version();
  return text("{}.{}.{}", n / 10000, n / 100 % 100, n % 100);
}

std::string described(const char* file, const Library* library) {
  try {
    std::string out = field("name", file) + ", " + field("path", find_file(file));
    return library ? out + ", " + field("version", version_of(*library)) : out;
  } catch (const plugin::error& e) {
    std::string why_not = e.what();
    if (library) why_not += library->without;
    return field("name", file) + ", " + field("why_not", why_not);
  }
}

}  // namespace

std::string describe_installation() {
  const Opened& o = opened();
  std::string list = "{" + field("name", "libcuda.so.1") + ", " + field("path", o.library) + "}";
  for (const Library& library : libraries) list += ", {" + described(library.file, &library) + "}";
  for (const char* file : files) list += ", {" + described(file, nullptr) + "}";
  std::string driver = text("{}.{}", o.version / 1000, o.version % 1000 / 10);
  return "{" + field("driver", driver) + ", \"libraries\": [" + list + "]}";
}

}  // namespace tenon::cuda
