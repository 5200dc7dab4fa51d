// Memory of the double's devices: two mappings of one file, a first-fit list a device.
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake_cuda {

namespace {

constexpr size_t alignment = 512;
constexpr size_t gap = 4096;  // between blocks, so that a step too far leaves every block
constexpr size_t times_reservable = 64;
constexpr int pattern = 0xFF;  // a NaN in f16, bf16, f32 and f64

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

void* map(int file, size_t bytes, int protection) {
  void* at = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) give_up("fake_cuda: mmap");
  return at;
}

}  // namespace

// Behind the allocations there is room for the reservations of some threads a device.
Memory::Memory(int devices, size_t bytes)
    : bytes_(bytes), total_(bytes * size_t(devices)), whole_(total_ * times_reservable) {
  int file = ::memfd_create("fake_cuda", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(whole_)) != 0)
    give_up("fake_cuda: memfd_create");
  base_ = reinterpret_cast<Address>(fake_cuda::map(file, whole_, PROT_NONE));
  work_ = static_cast<char*>(fake_cuda::map(file, whole_, PROT_READ | PROT_WRITE));
  ::close(file);
  for (int d = 0; d < devices; ++d) free_[d].emplace(size_t(d) * bytes, bytes);
}

std::optional<Address> Memory::allocate(int device, size_t bytes) {
  size_t wanted = (std::max(bytes, size_t{1}) + alignment - 1) / alignment * alignment + gap;
  for (auto [offset, size] : free_[device]) {
    if (size < wanted) continue;
    free_[device].erase(offset);
    if (size > wanted) free_[device].emplace(offset + wanted, size - wanted);
    live_.emplace(offset, Block{bytes, device});
    used_[device] += bytes;
    peak_[device] = std::max(peak_[device], used_[device]);
    std::memset(work_ + offset, pattern, bytes);
    return base_ + offset;
  }
  return std::nullopt;
}

void Memory::release(Address address) {
  auto block = live_.find(offset_of(address));
  if (block == live_.end()) return;
  auto [bytes, device] = block->second;
  size_t offset = block->first;
  live_.erase(block);
  used_[device] -= bytes;
  std::memset(work_ + offset, pattern, bytes);
  size_t size = (std::max(bytes, size_t{1}) + alignment - 1) / alignment * alignment + gap;
  auto [at, _] = free_[device].emplace(offset, size);
  auto next = std::next(at);
  if (next != free_[device].end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_[device].erase(next);
  }
  if (at == free_[device].begin()) return;
  auto before = std::prev(at);
  if (before->first + before->second != at->first) return;
  before->second += at->second;
  free_[device].erase(at);
}

bool Memory::is_device(Address address) const {
  return address >= base_ && address - base_ < whole_;
}

// ---- reserved addresses

std::optional<Address> Memory::reserve(size_t bytes) {
  size_t wanted = (bytes + page - 1) / page * page;
  if (wanted > whole_ - total_ - reserved_) return std::nullopt;
  Address at = base_ + total_ + reserved_;
  reserved_ += wanted;
  return at;
}

bool Memory::take_pages(int device, size_t bytes) {
  if (used_[device] + bytes > bytes_) return false;
  used_[device] += bytes;
  peak_[device] = std::max(peak_[device], used_[device]);
  return true;
}
void Memory::give_pages(int device, size_t bytes) { used_[device] -= bytes; }

bool Memory::map(Address address, size_t bytes) {
  size_t offset = offset_of(address);
  if (offset < total_ || offset + bytes > total_ + reserved_ || offset % page) return false;
  auto next = mapped_.lower_bound(offset);
  if (next != mapped_.end() && next->first < offset + bytes) return false;
  if (next != mapped_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > offset)
    return false;
  mapped_.emplace(offset, Mapping{bytes, false});
  std::memset(work_ + offset, pattern, bytes);
  return true;
}

bool Memory::unmap(Address address, size_t bytes) {
  auto at = mapped_.find(offset_of(address));
  if (at == mapped_.end() || at->second.bytes != bytes) return false;
  open(false);
  ::madvise(work_ + at->first, bytes, MADV_REMOVE);
  mapped_.erase(at);
  return true;
}

bool Memory::allow(Address address, size_t bytes) {
  auto at = mapped_.find(offset_of(address));
  if (at == mapped_.end() || at->second.bytes != bytes) return false;
  return at->second.is_allowed = true;
}

size_t Memory::mapped_bytes() const {
  size_t sum = 0;
  for (const auto& [offset, mapping] : mapped_) sum += mapping.bytes;
  return sum;
}

// What is touched may lie in several mappings, without a gap between them.
void* Memory::work_mapped(size_t offset, size_t bytes) {
  auto after = mapped_.upper_bound(offset);
  if (after == mapped_.begin()) return nullptr;
  size_t end = offset;
  for (auto at = std::prev(after); at != mapped_.end() && at->first <= end; ++at) {
    if (!at->second.is_allowed) return nullptr;
    end = std::max(end, at->first + at->second.bytes);
    if (end >= offset + bytes) return end > offset ? work_ + offset : nullptr;
  }
  return nullptr;
}

void* Memory::work(Address address, size_t bytes) {
  if (!is_device(address)) return nullptr;
  size_t offset = offset_of(address);
  if (offset >= total_) return work_mapped(offset, bytes);
  auto after = live_.upper_bound(offset);
  if (after == live_.begin()) return nullptr;
  auto [start, block] = *std::prev(after);
  if (offset - start > block.bytes || bytes > block.bytes - (offset - start)) return nullptr;
  return work_ + offset;
}

void Memory::open(bool for_all) {
  int protection = for_all ? PROT_READ | PROT_WRITE : PROT_NONE;
  auto protect = [&](size_t offset, size_t bytes) {
    if (::mprotect(reinterpret_cast<void*>(base_ + offset), bytes, protection) != 0)
      give_up("fake_cuda: mprotect");
  };
  protect(0, total_);
  for (const auto& [offset, mapping] : mapped_) protect(offset, mapping.bytes);
  // Pages that kernels have touched make each change slower: forget which they were.
  constexpr int changes_to_forget = 64;
  if (++changes_ % changes_to_forget == 0)
    ::madvise(reinterpret_cast<void*>(base_), whole_, MADV_DONTNEED);
}

size_t Memory::live_bytes() const {
  size_t sum = 0;
  for (const auto& [offset, block] : live_) sum += block.bytes;
  return sum;
}

}  // namespace fake_cuda
