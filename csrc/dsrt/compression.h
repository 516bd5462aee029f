// compression.h: records as single zstd frames, with an optional dictionary shared by all.
//
// Threads  A Dictionary is immutable and shared. Compressor and Decompressor belong to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace dsrt {

// A zstd dictionary, prepared once for all that use it.
class Dictionary {
 public:
  // Without a `level` it only decompresses. Throws std::invalid_argument if zstd refuses `content`.
  explicit Dictionary(std::span<const std::byte> content, std::optional<int> level = std::nullopt);
  ~Dictionary();
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

 private:
  friend class Compressor;
  friend class Decompressor;
  struct State;
  std::unique_ptr<State> state_;
};

class Compressor {
 public:
  // `dictionary` may be null and must have been prepared for the same `level`, which is zstd's.
  Compressor(int level, std::shared_ptr<const Dictionary> dictionary);
  ~Compressor();
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;

  // Room that a frame of `raw_bytes` may need.
  static std::size_t max_frame_bytes(std::size_t raw_bytes);

  // Writes `raw` as one frame to the front of `room`, which has max_frame_bytes(), and returns the
  // frame's size. The frame holds the raw size and no checksum of its own. Equal input gives equal
  // bytes, whatever this object compressed before.
  std::size_t compress(std::span<const std::byte> raw, std::span<std::byte> room);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Decompressor {
 public:
  explicit Decompressor(std::shared_ptr<const Dictionary> dictionary = nullptr);
  ~Decompressor();
  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;

  // Decompresses with `dictionary`, which may be null, from now on.
  void use(std::shared_ptr<const Dictionary> dictionary);

  // The raw size that `frame` declares. Throws CorruptError, beginning with `where`, if it
  // declares none or more than `max_bytes`: nothing may be allocated on a frame's word alone.
  static std::uint64_t raw_bytes(std::span<const std::byte> frame, std::uint64_t max_bytes,
                                 const std::string& where);

  // Fills `raw`, whose size must be exactly the frame's. Throws CorruptError as above.
  void decompress(std::span<const std::byte> frame, std::span<std::byte> raw,
                  const std::string& where);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dsrt
