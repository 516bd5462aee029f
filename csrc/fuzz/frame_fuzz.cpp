// frame_fuzz.cpp: bytes --> Decompressor: a frame gives exactly the bytes that it declares, or is
// refused; nothing is allocated for a size that no frame of its length can hold.
#include <memory>
#include <vector>

#include "dsrt/compression.h"
#include "dsrt/error.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsrt;
  constexpr std::uint64_t max_record_bytes = std::uint64_t{1} << 20;
  static const std::string words = "a dictionary of raw content: 0123456789 0123456789";
  static const auto dictionary =
      std::make_shared<const Dictionary>(std::as_bytes(std::span(words)));
  static Decompressor decompressor;
  fuzz::Input input(data, size);
  decompressor.use(input.below(2) == 0 ? nullptr : dictionary);
  const std::span<const std::byte> frame = input.rest();
  try {
    std::vector<std::byte> raw(Decompressor::raw_bytes(frame, max_record_bytes, ""));
    fuzz::require(raw.size() <= max_record_bytes);
    decompressor.decompress(frame, raw, "");
  } catch (const CorruptError&) {
  }
  return 0;
}
