// crc32c.h: the checksum of every stored byte (Castagnoli polynomial, RFC 3720), by ISA-L.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dsrt {

// CRC32C of `bytes`, continuing from the checksum of the bytes before them (0 for none).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace dsrt
