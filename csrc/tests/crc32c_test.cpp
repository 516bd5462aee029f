#include "dsrt/crc32c.h"

#include <sys/mman.h>

#include <string_view>
#include <vector>

#include "tests/check.h"

namespace dsrt {
namespace {

std::vector<std::byte> counting(int first, int step) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<std::byte>(first + i * step));
  return bytes;
}

// RFC 3720, appendix B.4.
void test_published_vectors() {
  CHECK_EQ(crc32c(counting(0x00, 0)), 0x8A9136AAu);
  CHECK_EQ(crc32c(counting(0xFF, 0)), 0x62A8AB43u);
  CHECK_EQ(crc32c(counting(0, 1)), 0x46DD794Eu);
  CHECK_EQ(crc32c(counting(31, -1)), 0x113FDB5Cu);
  CHECK_EQ(crc32c(std::as_bytes(std::span(std::string_view("123456789")))), 0xE3069283u);
}

void test_nothing_has_checksum_zero() { CHECK_EQ(crc32c({}), 0u); }

void test_pieces_continue_to_the_whole() {
  const std::vector<std::byte> bytes = counting(7, 11);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::uint32_t first = crc32c(std::span(bytes).first(cut));
    CHECK_EQ(crc32c(std::span(bytes).subspan(cut), first), crc32c(bytes));
  }
}

// ISA-L counts in int. The pages are the kernel's one zero page, so this takes no memory.
void test_more_bytes_than_isal_takes_at_once() {
  const std::size_t size = (std::size_t{1} << 30) + 4099;
  void* zeros = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(zeros != MAP_FAILED);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(zeros), size);
  const std::uint32_t first = crc32c(bytes.first(4099));
  CHECK_EQ(crc32c(bytes), crc32c(bytes.subspan(4099), first));
  ::munmap(zeros, size);
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_published_vectors();
  dsrt::test_nothing_has_checksum_zero();
  dsrt::test_pieces_continue_to_the_whole();
  dsrt::test_more_bytes_than_isal_takes_at_once();
}
