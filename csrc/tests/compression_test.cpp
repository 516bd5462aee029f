#include "dsrt/compression.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dsrt/error.h"
#include "tests/check.h"

namespace dsrt {
namespace {

using Bytes = std::vector<std::byte>;

// Bytes that compress, but not to nothing: words of a small vocabulary.
Bytes text(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes;
  while (bytes.size() < size) {
    const auto word = static_cast<unsigned>(random() % 200);
    for (unsigned i = 0; i < 3 + word % 5; ++i)
      bytes.push_back(std::byte((word * 7 + i * i) % 251));
  }
  bytes.resize(size);
  return bytes;
}

Bytes compressed(Compressor& compressor, const Bytes& raw) {
  Bytes frame(Compressor::max_frame_bytes(raw.size()));
  frame.resize(compressor.compress(raw, frame));
  return frame;
}

Bytes decompressed(Decompressor& decompressor, const Bytes& frame, std::size_t size) {
  Bytes raw(size);
  decompressor.decompress(frame, raw, "record 0");
  return raw;
}

std::shared_ptr<const Dictionary> dictionary_of(unsigned seed, int level) {
  return std::make_shared<Dictionary>(text(4096, seed), level);
}

void test_compress_then_decompress_is_identity() {
  for (const int level : {-5, 1, 3, 9, 19}) {
    for (const auto& dictionary : {std::shared_ptr<const Dictionary>(), dictionary_of(1, level)}) {
      Compressor compressor(level, dictionary);
      Decompressor decompressor(dictionary);
      for (const std::size_t size : {0, 1, 100, 70'000}) {
        const Bytes raw = text(size, 2);
        const Bytes frame = compressed(compressor, raw);
        CHECK_EQ(Decompressor::raw_bytes(frame, size, "record 0"), size);
        CHECK(decompressed(decompressor, frame, size) == raw);
      }
    }
  }
}

void test_a_dictionary_of_like_bytes_makes_small_records_smaller() {
  Compressor without(3, nullptr);
  Compressor with(3, dictionary_of(1, 3));
  const Bytes like = text(4096, 1);
  const Bytes raw(like.begin() + 1000, like.begin() + 1200);
  CHECK(compressed(with, raw).size() * 2 < compressed(without, raw).size());
}

// The writer hands records to whichever thread is free, and equal input must give equal files.
void test_a_frame_does_not_depend_on_what_was_compressed_before() {
  for (const int level : {-5, 1, 3, 5, 7, 12, 16, 19}) {
    for (const auto& dictionary : {std::shared_ptr<const Dictionary>(), dictionary_of(1, level)}) {
      Compressor used(level, dictionary);
      for (unsigned seed = 0; seed < 12; ++seed) {
        const Bytes raw = text(seed % 3 == 0 ? 50 + seed : seed * 9000, seed);
        Compressor fresh(level, dictionary);
        CHECK(compressed(used, raw) == compressed(fresh, raw));
      }
    }
  }
}

void test_a_level_that_zstd_has_not_is_refused() {
  CHECK_THROWS_WITH(Compressor(23, nullptr), std::invalid_argument,
                    "compression level 23 is outside [-131072, 22]");
}

void test_a_dictionary_that_zstd_cannot_read_is_refused() {
  Bytes broken = text(300, 1);
  const unsigned char magic[] = {0x37, 0xA4, 0x30, 0xEC};
  std::ranges::copy(std::as_bytes(std::span(magic)), broken.begin());
  CHECK_THROWS_WITH(Dictionary(broken, 3), std::invalid_argument,
                    "zstd cannot use the dictionary of 300 bytes");
}

void test_bytes_that_are_no_frame_are_corrupt() {
  CHECK_THROWS_WITH(Decompressor::raw_bytes(text(64, 1), 1000, "record 7"), CorruptError,
                    "record 7 is not a zstd frame");
}

void test_a_frame_cannot_claim_more_than_the_largest_record() {
  Compressor compressor(3, nullptr);
  const Bytes frame = compressed(compressor, text(1001, 1));
  CHECK_EQ(Decompressor::raw_bytes(frame, 1001, "record 7"), 1001u);
  CHECK_THROWS_WITH(Decompressor::raw_bytes(frame, 1000, "record 7"), CorruptError,
                    "record 7 claims 1001 bytes but the largest record of the cache has 1000");
}

void test_broken_frames_are_corrupt() {
  Compressor compressor(3, nullptr);
  Decompressor decompressor;
  const Bytes raw = text(5000, 1);
  const Bytes frame = compressed(compressor, raw);
  const Bytes cut(frame.begin(), frame.end() - 5);
  CHECK_THROWS_WITH(decompressed(decompressor, cut, raw.size()), CorruptError,
                    "record 0 cannot be decompressed");
  CHECK_THROWS_WITH(decompressed(decompressor, frame, raw.size() + 1), CorruptError,
                    "record 0 decompresses to 5000 bytes but 5001 are expected");
  CHECK(decompressed(decompressor, frame, raw.size()) == raw);  // A failure leaves no trace.
}

}  // namespace
}  // namespace dsrt

int main() {
  dsrt::test_compress_then_decompress_is_identity();
  dsrt::test_a_dictionary_of_like_bytes_makes_small_records_smaller();
  dsrt::test_a_frame_does_not_depend_on_what_was_compressed_before();
  dsrt::test_a_level_that_zstd_has_not_is_refused();
  dsrt::test_a_dictionary_that_zstd_cannot_read_is_refused();
  dsrt::test_bytes_that_are_no_frame_are_corrupt();
  dsrt::test_a_frame_cannot_claim_more_than_the_largest_record();
  dsrt::test_broken_frames_are_corrupt();
}
