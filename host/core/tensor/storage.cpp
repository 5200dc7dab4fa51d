// Storages: allocation in one block with their header, and release.
#include "core/tensor/storage.h"

#include "core/error.h"
#include "core/tensor/allocator.h"
#include "core/tensor/exposure.h"
#include "core/tensor/storage_end.h"

#include <new>

namespace tenon {

namespace {

// What stands in front of the data; only this file makes storages.
struct Header : Storage {
  std::atomic<bool> exposed{false}, watched{false};
};

constexpr uint64_t header_bytes = 128;  // keeps the data 64-byte aligned behind the header
static_assert(sizeof(Header) <= header_bytes);

Header& header_of(const Storage& storage) {
  return static_cast<Header&>(const_cast<Storage&>(storage));
}

std::atomic<bool>& exposure_of(const Storage& storage) { return header_of(storage).exposed; }

// Ids come from blocks per thread, so that making a small tensor touches no shared line.
struct IdBlock {
  uint64_t next = 0, end = 0;
};
constinit thread_local IdBlock my_ids;

uint64_t next_id() {
  static constinit std::atomic<uint64_t> next_block{1};
  IdBlock& ids = my_ids;
  if (ids.next == ids.end) {
    ids.next = next_block.fetch_add(1024, std::memory_order_relaxed);
    ids.end = ids.next + 1024;
  }
  return ids.next++;
}

Storage* make_header(uint64_t block_bytes) {
  auto* storage = new (allocate(block_bytes)) Header;
  storage->block_bytes = block_bytes;
  storage->id = next_id();
  return storage;
}

}  // namespace

StorageRef make_storage(uint64_t bytes) {
  require(bytes < (uint64_t{1} << 62), "a tensor of {} bytes does not fit into memory", bytes);
  Storage* storage = make_header(header_bytes + bytes);
  storage->data = bytes ? reinterpret_cast<char*>(storage) + header_bytes : nullptr;
  storage->bytes = bytes;
  return StorageRef(storage);
}

StorageRef make_borrowed_storage(void* data, uint64_t bytes, Device device, void (*deleter)(void*),
                                 void* deleter_arg) {
  Storage* storage = make_header(header_bytes);
  storage->data = data;
  storage->bytes = bytes;
  storage->device = device;
  storage->deleter = deleter;
  storage->deleter_arg = deleter_arg;
  expose(*storage);
  return StorageRef(storage);
}

StorageRef make_fake_storage(Device device) {
  Storage* storage = make_header(header_bytes);
  storage->device = device;
  storage->fake = true;
  return StorageRef(storage);
}

void (*memory_lent_slot)(const Tensor&) = nullptr;

void expose(const Storage& storage) { exposure_of(storage).store(true, std::memory_order_relaxed); }

void keep_private(const Storage& storage) {
  exposure_of(storage).store(false, std::memory_order_relaxed);
}

bool is_exposed(const Storage& storage) {
  return exposure_of(storage).load(std::memory_order_relaxed);
}

void (*storage_ended_slot)(uint64_t) = nullptr;

void watch_end(const Storage& storage) {
  header_of(storage).watched.store(true, std::memory_order_relaxed);
}

void StorageRef::destroy(Storage* storage) {
  if (header_of(*storage).watched.load(std::memory_order_relaxed)) storage_ended_slot(storage->id);
  if (storage->deleter) storage->deleter(storage->deleter_arg);
  uint64_t bytes = storage->block_bytes;
  static_cast<Header*>(storage)->~Header();
  deallocate(storage, bytes);
}

}  // namespace tenon
