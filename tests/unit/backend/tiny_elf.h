// Makes small ELF files for tests of the note reader: what a linker would write, nothing runnable.
#pragma once

#include <elf.h>
#include <tenon/plugin.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace tenon::test {

#if defined(__aarch64__)
inline constexpr uint16_t native_machine = EM_AARCH64;
#else
inline constexpr uint16_t native_machine = EM_X86_64;
#endif

struct TinyElf {
  std::vector<std::string> manifests;  ///< one note each
  std::vector<std::string> needed;
  std::string runpath;
  std::string symbol = "tenon_plugin_entry_v1";  ///< the one dynamic symbol; "" = none
  unsigned char visibility = STV_DEFAULT;
  uint16_t section = 1;  ///< SHN_UNDEF makes it an import
  bool exec_stack = false, sysv_hash = false;
  uint16_t machine = native_machine, type = ET_DYN;

  /// The file: headers, notes, dynamic section, symbols, hash, strings, all in one segment that is
  /// mapped 0x1000 above its place in the file.
  std::string bytes() const {
    std::string notes = note_bytes(), strings(1, '\0');
    auto add_string = [&](const std::string& s) {
      uint64_t at = strings.size();
      strings += s + '\0';
      return at;
    };
    std::vector<Elf64_Dyn> dynamic;
    for (const std::string& n : needed) dynamic.push_back(entry(DT_NEEDED, add_string(n)));
    if (!runpath.empty()) dynamic.push_back(entry(DT_RUNPATH, add_string(runpath)));
    Elf64_Sym symbols[2] = {};
    symbols[1].st_name = static_cast<uint32_t>(add_string(symbol));
    symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbols[1].st_other = visibility;
    symbols[1].st_shndx = section;

    uint64_t notes_at = sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Phdr);
    uint64_t dynamic_at = (notes_at + notes.size() + 7) & ~7ull;
    uint64_t symbols_at = dynamic_at + (dynamic.size() + 4) * sizeof(Elf64_Dyn);
    uint64_t hash_at = symbols_at + sizeof symbols;
    std::string hash = sysv_hash ? sysv_bytes() : gnu_bytes();
    uint64_t strings_at = hash_at + hash.size();
    dynamic.push_back(entry(DT_STRTAB, base + strings_at));
    dynamic.push_back(entry(DT_SYMTAB, base + symbols_at));
    dynamic.push_back(entry(sysv_hash ? DT_HASH : DT_GNU_HASH, base + hash_at));
    dynamic.push_back(entry(DT_NULL, 0));

    uint64_t size = strings_at + strings.size();
    std::string out(size, '\0');
    put(out, 0, header());
    uint64_t at = sizeof(Elf64_Ehdr);
    for (const Elf64_Phdr& s : {segment(PT_LOAD, 0, size), segment(PT_NOTE, notes_at, notes.size()),
                                segment(PT_DYNAMIC, dynamic_at, dynamic.size() * sizeof(Elf64_Dyn)),
                                segment(PT_GNU_STACK, 0, 0)}) {
      put(out, at, s);
      at += sizeof s;
    }
    out.replace(notes_at, notes.size(), notes);
    std::memcpy(&out[dynamic_at], dynamic.data(), dynamic.size() * sizeof(Elf64_Dyn));
    std::memcpy(&out[symbols_at], symbols, sizeof symbols);
    out.replace(hash_at, hash.size(), hash);
    out.replace(strings_at, strings.size(), strings);
    return out;
  }

  void write(const std::string& path) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes();
  }

 private:
  static constexpr uint64_t base = 0x1000;

  template <class T>
  static void put(std::string& out, uint64_t at, const T& value) {
    std::memcpy(&out[at], &value, sizeof value);
  }
  template <class T>
  static void append(std::string& out, const T& value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static Elf64_Dyn entry(int64_t tag, uint64_t value) {
    Elf64_Dyn d{};
    d.d_tag = tag;
    d.d_un.d_val = value;
    return d;
  }
  Elf64_Ehdr header() const {
    Elf64_Ehdr h{};
    std::memcpy(h.e_ident, ELFMAG, SELFMAG);
    h.e_ident[EI_CLASS] = ELFCLASS64;
    h.e_ident[EI_DATA] = ELFDATA2LSB;
    h.e_ident[EI_VERSION] = EV_CURRENT;
    h.e_type = type;
    h.e_machine = machine;
    h.e_phoff = sizeof h;
    h.e_phentsize = sizeof(Elf64_Phdr);
    h.e_phnum = 4;
    return h;
  }
  Elf64_Phdr segment(uint32_t kind, uint64_t offset, uint64_t size) const {
    Elf64_Phdr p{};
    p.p_type = kind;
    p.p_offset = offset;
    p.p_vaddr = base + offset;
    p.p_filesz = p.p_memsz = size;
    p.p_align = 4;
    p.p_flags = PF_R | (kind == PT_GNU_STACK && exec_stack ? PF_X : 0);
    return p;
  }
  std::string note_bytes() const {
    std::string out;
    append(out, Elf64_Nhdr{4, 4, 1});  // a foreign note comes first
    out += std::string("GNU\0abcd", 8);
    for (const std::string& text : manifests) {
      append(out, Elf64_Nhdr{6, static_cast<uint32_t>(text.size() + 1), TN_NOTE_TYPE});
      out += std::string("Tenon\0\0\0", 8) + text + '\0';
      out.resize((out.size() + 3) & ~size_t{3});
    }
    return out;
  }
  std::string gnu_bytes() const {
    uint32_t hash = 5381;
    for (char c : symbol) hash = hash * 33 + static_cast<unsigned char>(c);
    std::string out;
    for (uint32_t word : {1u, 1u, 1u, 6u}) append(out, word);  // buckets, first, bloom words, shift
    append(out, ~uint64_t{0});
    append(out, symbol.empty() ? 0u : 1u);
    append(out, hash | 1);
    return out;
  }
  static std::string sysv_bytes() {
    std::string out;
    for (uint32_t word : {1u, 2u, 1u, 0u, 0u}) append(out, word);  // buckets, chains, bucket, chain
    return out;
  }
};

/// A manifest with one backend.
inline std::string manifest_of(const std::string& plugin, const std::string& backend,
                               const std::string& version = "0.1.0",
                               const std::string& devices = "\"cpu\"") {
  return "manifest = 1\n[plugin]\nname = \"" + plugin + "\"\nversion = \"" + version +
         "\"\nabi = \"1.0\"\n[[backend]]\nname = \"" + backend + "\"\ndevices = [" + devices +
         "]\n";
}

}  // namespace tenon::test
