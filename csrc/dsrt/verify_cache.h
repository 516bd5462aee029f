// verify_cache.h: reads a whole cache to find out what is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dsrt/shard_set.h"

namespace dsrt {

// Checks every record of one cache against its checksum, whatever the set's policy, and calls
// `on_progress(records done)` now and then and at the end. Returns one message for each shard that
// cannot be opened, and one for each broken record of the others.
std::vector<std::string> verify_cache(const ShardSet& shards, std::size_t cache,
                                      const std::function<void(std::uint64_t)>& on_progress);

}  // namespace dsrt
