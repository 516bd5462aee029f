#include "dsrt/compression.h"

#include <zstd.h>

#include <new>
#include <stdexcept>

#include "dsrt/error.h"

namespace dsrt {

namespace {

struct FreeCompressDictionary {
  void operator()(ZSTD_CDict* dictionary) const { ZSTD_freeCDict(dictionary); }
};
struct FreeDecompressDictionary {
  void operator()(ZSTD_DDict* dictionary) const { ZSTD_freeDDict(dictionary); }
};
struct FreeCompressContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct FreeDecompressContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

struct Dictionary::State {
  std::unique_ptr<ZSTD_CDict, FreeCompressDictionary> compress;
  std::unique_ptr<ZSTD_DDict, FreeDecompressDictionary> decompress;
};

Dictionary::Dictionary(std::span<const std::byte> content, std::optional<int> level)
    : state_(std::make_unique<State>()) {
  if (level) state_->compress.reset(ZSTD_createCDict(content.data(), content.size(), *level));
  state_->decompress.reset(ZSTD_createDDict(content.data(), content.size()));
  if ((level && !state_->compress) || !state_->decompress) {
    throw std::invalid_argument("zstd cannot use the dictionary of " +
                                std::to_string(content.size()) + " bytes");
  }
}

Dictionary::~Dictionary() = default;

struct Compressor::State {
  std::unique_ptr<ZSTD_CCtx, FreeCompressContext> context;
  std::shared_ptr<const Dictionary> dictionary;
};

Compressor::Compressor(int level, std::shared_ptr<const Dictionary> dictionary)
    : state_(std::make_unique<State>()) {
  if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel()) {
    throw std::invalid_argument("compression level " + std::to_string(level) + " is outside [" +
                                std::to_string(ZSTD_minCLevel()) + ", " +
                                std::to_string(ZSTD_maxCLevel()) + "]");
  }
  state_->context.reset(ZSTD_createCCtx());
  if (!state_->context) throw std::bad_alloc();
  state_->dictionary = std::move(dictionary);
  ZSTD_CCtx_setParameter(state_->context.get(), ZSTD_c_compressionLevel, level);
  if (state_->dictionary) {
    ZSTD_CCtx_refCDict(state_->context.get(), state_->dictionary->state_->compress.get());
  }
}

Compressor::~Compressor() = default;
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;

std::size_t Compressor::max_frame_bytes(std::size_t raw_bytes) {
  return ZSTD_compressBound(raw_bytes);
}

std::size_t Compressor::compress(std::span<const std::byte> raw, std::span<std::byte> room) {
  const std::size_t result =
      ZSTD_compress2(state_->context.get(), room.data(), room.size(), raw.data(), raw.size());
  if (ZSTD_isError(result)) {
    throw std::runtime_error(std::string("zstd could not compress a record: ") +
                             ZSTD_getErrorName(result));
  }
  return result;
}

struct Decompressor::State {
  std::unique_ptr<ZSTD_DCtx, FreeDecompressContext> context;
  std::shared_ptr<const Dictionary> dictionary;
};

Decompressor::Decompressor(std::shared_ptr<const Dictionary> dictionary)
    : state_(std::make_unique<State>()) {
  state_->context.reset(ZSTD_createDCtx());
  if (!state_->context) throw std::bad_alloc();
  use(std::move(dictionary));
}

Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;

void Decompressor::use(std::shared_ptr<const Dictionary> dictionary) {
  state_->dictionary = std::move(dictionary);
  const Dictionary* used = state_->dictionary.get();
  ZSTD_DCtx_refDDict(state_->context.get(), used ? used->state_->decompress.get() : nullptr);
}

std::uint64_t Decompressor::raw_bytes(std::span<const std::byte> frame, std::uint64_t max_bytes,
                                      const std::string& where) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) {
    throw CorruptError(where + " is not a zstd frame with a size; restore or rebuild the cache");
  }
  if (size > max_bytes) {
    throw CorruptError(where + " claims " + std::to_string(size) +
                       " bytes but the largest record of the cache has " +
                       std::to_string(max_bytes) + "; restore or rebuild the cache");
  }
  return size;
}

void Decompressor::decompress(std::span<const std::byte> frame, std::span<std::byte> raw,
                              const std::string& where) {
  const std::size_t result = ZSTD_decompressDCtx(state_->context.get(), raw.data(), raw.size(),
                                                 frame.data(), frame.size());
  if (ZSTD_isError(result)) {
    throw CorruptError(where + " cannot be decompressed: " + ZSTD_getErrorName(result) +
                       "; restore or rebuild the cache");
  }
  if (result != raw.size()) {
    throw CorruptError(where + " decompresses to " + std::to_string(result) + " bytes but " +
                       std::to_string(raw.size()) + " are expected; restore or rebuild the cache");
  }
}

}  // namespace dsrt
