// Digests of plugin files and the list that they are compared with.
#include "backend/find/allow_list.h"

#include "core/error.h"
#include "graph/hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace tenon {
namespace {

constexpr std::string_view prefix = "sha256:";

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_digest(std::string_view text) {
  return text.starts_with(prefix) && text.size() == prefix.size() + 64 &&
         text.find_first_not_of("0123456789abcdef", prefix.size()) == text.npos;
}

}  // namespace

// The file is read, not mapped: one that is cut short meanwhile must not kill the process.
std::string digest_of(int file, const std::string& path) {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  ensure(hash && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1,
         "libcrypto cannot compute SHA-256");
  std::vector<char> block(1 << 18);
  off_t at = 0;
  for (;;) {
    ssize_t n = ::pread(file, block.data(), block.size(), at);
    if (n < 0 && errno == EINTR) continue;
    require(n >= 0, ErrorCode::bad_file, "{}: cannot be read: {}", path, std::strerror(errno));
    if (n == 0) break;
    EVP_DigestUpdate(hash.get(), block.data(), static_cast<size_t>(n));
    at += n;
  }
  std::array<char, 32> digest;
  EVP_DigestFinal_ex(hash.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return std::string(prefix) + to_hex({digest.data(), digest.size()});
}

std::string digest_of(const std::string& path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  require(file >= 0, ErrorCode::bad_file, "{}: cannot be opened: {}", path, std::strerror(errno));
  struct Close {
    int file;
    ~Close() { ::close(file); }
  } close{file};
  return digest_of(file, path);
}

AllowList::AllowList(const std::vector<std::string>& items, bool only) : only_(only) {
  for (const std::string& item : items) {
    size_t equals = item.rfind('=');
    std::string name = item.substr(0, std::min(equals, item.size()));
    std::string digest = equals == item.npos ? "" : item.substr(equals + 1);
    std::transform(digest.begin(), digest.end(), digest.begin(),
                   [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; });
    require(!name.empty() && name.find('/') == name.npos && is_digest(digest), ErrorCode::config,
            "plugins.allow: expected FILE.so=sha256: and 64 hexadecimal digits, the file without "
            "folders, found '{}'; `tenon plugin info FILE` prints the digest",
            item);
    digests_.emplace_back(std::move(name), std::move(digest));
  }
}

bool AllowList::names(const std::string& path) const {
  std::string name = file_name_of(path);
  return std::any_of(digests_.begin(), digests_.end(),
                     [&](const auto& entry) { return entry.first == name; });
}

Diagnosis AllowList::judge(const std::string& path, int file) const {
  if (!names(path) && !only_) return {};
  std::string name = file_name_of(path);
  if (!names(path))
    return {PluginFault::wrong_digest, path,
            "plugins.allow does not name it, and plugins.allow_only is set",
            message("add the line `tenon plugin info {}` prints to plugins.allow", path)};
  std::string found, expected;
  try {
    found = file < 0 ? digest_of(path) : digest_of(file, path);
  } catch (const Error& e) {
    return {PluginFault::wrong_digest, path, message("its digest is unknown: {}", e.what()), ""};
  }
  for (const auto& [listed, digest] : digests_) {
    if (listed != name) continue;
    if (digest == found) return {};
    expected += (expected.empty() ? "" : " or ") + digest;
  }
  return {PluginFault::wrong_digest, path,
          message("plugins.allow expects {}, the file has {}", expected, found),
          "if it was replaced on purpose, write its digest into plugins.allow"};
}

}  // namespace tenon
