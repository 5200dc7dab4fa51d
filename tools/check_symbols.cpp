// Checks that a shared library exports nothing but symbols of namespace tenon and C functions tn_*
// and tenon_*: prints each other one.
//
//   check_symbols libtenon.so
//
// Reads the dynamic symbol table of a 64-bit little-endian ELF file, as the build makes it.
#include <cxxabi.h>
#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::string demangled(const char* name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                              &std::free);
  return status == 0 ? text.get() : name;
}

// Type information, virtual tables and the like are named after what they belong to.
std::string_view subject(std::string_view name) {
  for (std::string_view prefix :
       {"typeinfo for ", "typeinfo name for ", "vtable for ", "VTT for ", "guard variable for ",
        "non-virtual thunk to ", "virtual thunk to ", "TLS wrapper function for ",
        "TLS init function for ", "construction vtable for "}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

bool is_ours(const char* mangled) {
  std::string_view name = mangled;
  if (name.starts_with("tn_") || name.starts_with("tenon_")) return true;
  // Members, functions and their templates: the nested name begins with 5tenon. A template is
  // demangled with its return type in front, so the mangled name decides.
  for (std::string_view prefix : {"_ZN5tenon", "_ZNK5tenon", "_ZNO5tenon", "_ZNR5tenon"}) {
    if (name.starts_with(prefix)) return true;
  }
  std::string text = demangled(mangled);
  return name.starts_with("_Z") && subject(text).starts_with("tenon::");
}

template <class T>
const T* at(const std::vector<char>& file, uint64_t offset, uint64_t count = 1) {
  uint64_t bytes = count * sizeof(T);
  if (offset > file.size() || bytes > file.size() - offset) {
    std::fprintf(stderr, "the file ends inside a table; is it a whole library?\n");
    std::exit(2);
  }
  return reinterpret_cast<const T*>(file.data() + offset);
}

int check(const std::vector<char>& file) {
  const auto* header = at<Elf64_Ehdr>(file, 0);
  const auto* sections = at<Elf64_Shdr>(file, header->e_shoff, header->e_shnum);
  int exported = 0, foreign = 0;
  for (const Elf64_Shdr* section = sections; section != sections + header->e_shnum; ++section) {
    if (section->sh_type != SHT_DYNSYM || section->sh_link >= header->e_shnum) continue;
    const Elf64_Shdr& strings = sections[section->sh_link];
    uint64_t count = section->sh_size / sizeof(Elf64_Sym);
    const auto* symbols = at<Elf64_Sym>(file, section->sh_offset, count);
    for (const Elf64_Sym* symbol = symbols; symbol != symbols + count; ++symbol) {
      bool local = ELF64_ST_BIND(symbol->st_info) == STB_LOCAL;
      if (local || symbol->st_shndx == SHN_UNDEF || symbol->st_name == 0) continue;
      const char* name = at<char>(file, strings.sh_offset + symbol->st_name);
      ++exported;
      if (is_ours(name)) continue;
      ++foreign;
      std::printf("%s\n", demangled(name).c_str());
    }
  }
  std::printf("%d exported symbols, %d of them not ours\n", exported, foreign);
  return foreign == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream in(argc == 2 ? argv[1] : "", std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "usage: check_symbols LIBRARY\n");
    return 2;
  }
  std::vector<char> file{std::istreambuf_iterator<char>(in), {}};
  file.push_back('\0');
  if (file.size() < sizeof(Elf64_Ehdr) || std::memcmp(file.data(), ELFMAG "\2\1", 6) != 0) {
    std::fprintf(stderr, "%s is not a 64-bit little-endian ELF file\n", argv[1]);
    return 2;
  }
  return check(file);
}
