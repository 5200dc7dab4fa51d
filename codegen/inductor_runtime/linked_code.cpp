// A linker for kernels: relocatable objects to functions.
//
// Problem: code that was compiled now, earlier or on another machine has to run in this process,
// also where no LLVM is installed to link it.
//
// Model: what the code generator writes is small: x86-64 ELF with sections of code and of
// constants, no data that is written, no thread-local variables, position independent, and calls of
// functions by name. So one block of memory takes all code, then a stub for each function of the
// process that is called (which may lie further away than a call reaches), then, on pages of their
// own, the constants and a table of addresses. Relocations are applied there, and the pages become
// executable, or read-only, before anything runs: no page is ever both written and executed.
//
// Nothing in an object is trusted to lie within it: every offset and number is checked. What the
// code does cannot be; who wrote it is asked before it comes here.
//
// Cost: a copy of the code, some 50 us for a hundred kernels. Reference: System V ABI, AMD64
// supplement, chapter 4.
#include "linked_code.h"

#include "runtime_symbols.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace inductor {

using tenon::plugin::error;
using tenon::plugin::text;

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw error(TN_DATA_LOSS, "object code of kernels: " + what);
}
void expect(bool holds, const char* what) {
  if (!holds) fail(what);
}

/// The parts of one object, each within its bytes.
class Object {
 public:
  explicit Object(std::string_view bytes) : bytes_(bytes) {
    auto header = read<Elf64_Ehdr>(bytes_, 0);
    bool is_elf = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                  header.e_ident[EI_CLASS] == ELFCLASS64 &&
                  header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_type == ET_REL;
    expect(is_elf, "not a relocatable ELF file");
    expect(header.e_machine == EM_X86_64, "not of an x86-64 processor");
    expect(header.e_shentsize == sizeof(Elf64_Shdr), "section headers of an unknown size");
    for (size_t i = 0; i < header.e_shnum; ++i)
      sections.push_back(
          read<Elf64_Shdr>(bytes_, checked_sum(header.e_shoff, i * sizeof(Elf64_Shdr))));
    for (const Elf64_Shdr& section : sections)
      if (section.sh_type == SHT_SYMTAB) read_symbols(section);
  }

  std::string_view contents(const Elf64_Shdr& section) const {
    expect(
        section.sh_offset <= bytes_.size() && section.sh_size <= bytes_.size() - section.sh_offset,
        "a section reaches beyond the end");
    return bytes_.substr(section.sh_offset, section.sh_size);
  }
  template <class T>
  std::vector<T> table(const Elf64_Shdr& section) const {
    std::string_view in = contents(section);
    expect(section.sh_entsize == sizeof(T) && in.size() % sizeof(T) == 0,
           "a table of entries of an unknown size");
    std::vector<T> out(in.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), in.data(), in.size());
    return out;
  }
  const Elf64_Sym& symbol(uint64_t i) const {
    expect(i < symbols.size(), "a relocation names an unknown symbol");
    return symbols[i];
  }
  std::string name_of(const Elf64_Sym& symbol) const {
    expect(symbol.st_name < names_.size(), "the name of a symbol lies beyond the end");
    std::string_view rest = names_.substr(symbol.st_name);
    size_t end = rest.find('\0');
    expect(end != rest.npos, "the name of a symbol has no end");
    return std::string(rest.substr(0, end));
  }

  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;

 private:
  template <class T>
  static T read(std::string_view bytes, uint64_t at) {
    expect(at <= bytes.size() && sizeof(T) <= bytes.size() - at, "cut off");
    T out;
    std::memcpy(&out, bytes.data() + at, sizeof out);
    return out;
  }
  static uint64_t checked_sum(uint64_t a, uint64_t b) {
    expect(a <= std::numeric_limits<uint64_t>::max() - b, "an offset is too large");
    return a + b;
  }
  void read_symbols(const Elf64_Shdr& section) {
    symbols = table<Elf64_Sym>(section);
    expect(section.sh_link < sections.size(), "the names of symbols are missing");
    names_ = contents(sections[section.sh_link]);
  }

  std::string_view bytes_, names_;
};

bool is_loaded(const Elf64_Shdr& s) { return (s.sh_flags & SHF_ALLOC) && s.sh_size > 0; }
bool is_code(const Elf64_Shdr& s) { return (s.sh_flags & SHF_EXECINSTR) != 0; }

/// One linking: places, then contents, then relocations.
class Linker {
 public:
  explicit Linker(const std::vector<std::string>& objects) {
    for (const std::string& bytes : objects) objects_.emplace_back(bytes);
    for (const RuntimeSymbol& s : runtime_symbols()) process_[s.name] = s.address;
  }

  size_t place() {
    for (const Object& o : objects_) places_.emplace_back(o.sections.size(), unplaced);
    place_sections(true);
    expect(size_ > 0, "no code in it");
    collect_calls();
    stubs_ = aligned(size_, stub_bytes);
    code_end_ = size_ =
        aligned(stubs_ + calls_.size() * stub_bytes, static_cast<size_t>(getpagesize()));
    place_sections(false);
    addresses_ = aligned(size_, 8);
    return size_ = aligned(addresses_ + 8 * calls_.size(), static_cast<size_t>(getpagesize()));
  }
  size_t code_end() const { return code_end_; }

  void fill(std::byte* memory) {
    memory_ = memory;
    for (size_t o = 0; o < objects_.size(); ++o)
      for (size_t s = 0; s < objects_[o].sections.size(); ++s)
        if (places_[o][s] != unplaced) {
          std::string_view bytes = objects_[o].contents(objects_[o].sections[s]);
          std::memcpy(memory_ + places_[o][s], bytes.data(), bytes.size());
        }
    write_calls();
    define_functions();
    for (size_t o = 0; o < objects_.size(); ++o)
      for (const Elf64_Shdr& section : objects_[o].sections)
        if (section.sh_type == SHT_RELA)
          relocate(o, section);
        else
          expect(section.sh_type != SHT_REL, "relocations of an unknown kind");
  }

  std::map<std::string, std::span<const std::byte>, std::less<>> take_functions() {
    return std::move(functions_);
  }

 private:
  static constexpr size_t unplaced = SIZE_MAX;
  static constexpr size_t stub_bytes = 16;

  static size_t aligned(size_t at, size_t to) { return (at + to - 1) / to * to; }

  void place_sections(bool code) {
    for (size_t o = 0; o < objects_.size(); ++o)
      for (size_t s = 0; s < objects_[o].sections.size(); ++s) {
        const Elf64_Shdr& section = objects_[o].sections[s];
        if (!is_loaded(section) || is_code(section) != code) continue;
        bool is_constant =
            !(section.sh_flags & (SHF_WRITE | SHF_TLS)) && section.sh_type != SHT_NOBITS;
        expect(is_constant, "a section of variables, which kernels do not have");
        uint64_t align = std::max<uint64_t>(section.sh_addralign, 1);
        expect(align <= static_cast<size_t>(getpagesize()) && (align & (align - 1)) == 0,
               "a section of an unknown alignment");
        objects_[o].contents(section);  // its size is sane from here on
        places_[o][s] = aligned(size_, align);
        size_ = places_[o][s] + section.sh_size;
      }
  }

  // Names that no object defines: functions of the process.
  void collect_calls() {
    std::map<std::string, bool, std::less<>> defined;
    for (const Object& o : objects_)
      for (const Elf64_Sym& s : o.symbols)
        if (is_global(s) && s.st_shndx != SHN_UNDEF) defined[o.name_of(s)] = true;
    for (const Object& o : objects_)
      for (const Elf64_Sym& s : o.symbols) {
        if (!is_global(s) || s.st_shndx != SHN_UNDEF) continue;
        std::string name = o.name_of(s);
        if (name == "_GLOBAL_OFFSET_TABLE_" || defined.contains(name)) continue;
        auto address = process_.find(name);
        if (address == process_.end()) fail(text("it calls {}, which is unknown here", name));
        calls_.try_emplace(name, std::pair(calls_.size(), address->second));
      }
  }
  static bool is_global(const Elf64_Sym& s) { return ELF64_ST_BIND(s.st_info) != STB_LOCAL; }

  // A stub jumps to the address behind it; the table has the address alone.
  void write_calls() {
    static constexpr unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0};
    for (const auto& [name, call] : calls_) {
      std::byte* stub = memory_ + stubs_ + call.first * stub_bytes;
      std::memcpy(stub, jump, sizeof jump);
      std::memcpy(stub + sizeof jump, &call.second, sizeof call.second);
      std::memcpy(memory_ + addresses_ + 8 * call.first, &call.second, sizeof call.second);
    }
  }

  // Where a symbol of an object's own lies.
  std::byte* place_of(size_t o, const Elf64_Sym& s) const {
    expect(s.st_shndx < places_[o].size() && places_[o][s.st_shndx] != unplaced,
           "a symbol of a section that is not there");
    expect(s.st_value <= objects_[o].sections[s.st_shndx].sh_size, "a symbol beyond its section");
    return memory_ + places_[o][s.st_shndx] + s.st_value;
  }

  void define_functions() {
    for (size_t o = 0; o < objects_.size(); ++o)
      for (const Elf64_Sym& s : objects_[o].symbols) {
        if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || !is_global(s) || s.st_shndx == SHN_UNDEF)
          continue;
        const std::byte* at = place_of(o, s);
        expect(at < memory_ + stubs_, "a function that is not among the code");
        size_t size = std::min<size_t>(s.st_size, static_cast<size_t>(memory_ + stubs_ - at));
        functions_.try_emplace(objects_[o].name_of(s), at, size);
      }
  }

  void relocate(size_t o, const Elf64_Shdr& table) {
    expect(table.sh_info < places_[o].size(), "relocations of an unknown section");
    if (places_[o][table.sh_info] == unplaced) return;
    uint64_t size = objects_[o].sections[table.sh_info].sh_size;
    for (const Elf64_Rela& r : objects_[o].table<Elf64_Rela>(table)) {
      uint64_t type = ELF64_R_TYPE(r.r_info);
      uint64_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
      expect(size >= width && r.r_offset <= size - width, "a relocation beyond its section");
      apply(o, r, memory_ + places_[o][table.sh_info] + r.r_offset);
    }
  }

  void apply(size_t o, const Elf64_Rela& r, std::byte* at) {
    const Elf64_Sym& symbol = objects_[o].symbol(ELF64_R_SYM(r.r_info));
    auto here = reinterpret_cast<uint64_t>(at);
    uint64_t addend = static_cast<uint64_t>(r.r_addend);
    switch (ELF64_R_TYPE(r.r_info)) {
      case R_X86_64_64:
        return put(at, target(o, symbol) + addend);
      case R_X86_64_PC64:
        return put(at, target(o, symbol) + addend - here);
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
        return put(at, near(target(o, symbol) + addend - here));
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX: {
        auto call = calls_.find(objects_[o].name_of(symbol));
        expect(call != calls_.end(), "the address of an unknown function is asked for");
        auto entry = reinterpret_cast<uint64_t>(memory_ + addresses_ + 8 * call->second.first);
        return put(at, near(entry + addend - here));
      }
      default:
        fail(text("a relocation of kind {}, which is unknown", ELF64_R_TYPE(r.r_info)));
    }
  }

  uint64_t target(size_t o, const Elf64_Sym& symbol) const {
    if (symbol.st_shndx != SHN_UNDEF) return reinterpret_cast<uint64_t>(place_of(o, symbol));
    std::string name = objects_[o].name_of(symbol);
    if (auto own = functions_.find(name); own != functions_.end())
      return reinterpret_cast<uint64_t>(own->second.data());
    auto call = calls_.find(name);
    expect(call != calls_.end(), "a relocation names no function");
    return reinterpret_cast<uint64_t>(memory_ + stubs_ + call->second.first * stub_bytes);
  }

  static int32_t near(uint64_t distance) {
    auto value = static_cast<int64_t>(distance);
    expect(value >= INT32_MIN && value <= INT32_MAX, "a relocation reaches too far");
    return static_cast<int32_t>(value);
  }
  template <class T>
  static void put(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
  }

  std::vector<Object> objects_;
  std::map<std::string, void*, std::less<>> process_;
  std::vector<std::vector<size_t>> places_;                             // by object and section
  std::map<std::string, std::pair<size_t, void*>, std::less<>> calls_;  // number, address
  std::map<std::string, std::span<const std::byte>, std::less<>> functions_;
  size_t size_ = 0, stubs_ = 0, code_end_ = 0, addresses_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace

LinkedCode::LinkedCode(std::vector<std::string> objects) : objects_(std::move(objects)) {
  Linker linker(objects_);
  size_t bytes = linker.place();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw error(TN_OUT_OF_MEMORY, "no memory for the code of kernels");
  try {
    linker.fill(static_cast<std::byte*>(memory));
    auto* constants = static_cast<std::byte*>(memory) + linker.code_end();
    bool done = mprotect(memory, linker.code_end(), PROT_READ | PROT_EXEC) == 0 &&
                mprotect(constants, bytes - linker.code_end(), PROT_READ) == 0;
    if (!done)
      throw error(TN_FAILED_PRECONDITION,
                  text("the system lets this process run no new code: {}", std::strerror(errno)));
    functions_ = linker.take_functions();
  } catch (...) {
    munmap(memory, bytes);
    throw;
  }
  memory_ = memory;
  bytes_ = bytes;
}

LinkedCode::~LinkedCode() { munmap(memory_, bytes_); }

KernelFunction LinkedCode::find(const std::string& symbol) const {
  auto found = functions_.find(symbol);
  if (found == functions_.end()) fail(text("there is no function {}", symbol));
  return reinterpret_cast<KernelFunction>(const_cast<std::byte*>(found->second.data()));
}

std::span<const std::byte> LinkedCode::code_of(const std::string& symbol) const {
  auto found = functions_.find(symbol);
  return found == functions_.end() ? std::span<const std::byte>() : found->second;
}

}  // namespace inductor
