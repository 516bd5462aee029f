// string_views.h: texts as Arrow's string views, those told apart that need a closer look.
//
//   up to 12 bytes:  length u32, the text itself, zeros to byte 16
//   more:            length u32, its first 4 bytes, number of a buffer u32, offset into it u32
//
// Source: "Variable-size Binary View Layout" of the Arrow Columnar Format 1.4.
#pragma once

#include <cstddef>
#include <span>

namespace dsrt {

// Returns whether every view holds its text itself, in ASCII, followed by zeros: then none of them
// leads anywhere, and all are valid UTF-8. False says nothing. Bytes after the last whole view are
// not looked at.
bool are_short_ascii(std::span<const std::byte> views);

}  // namespace dsrt
