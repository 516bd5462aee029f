// store.cpp: what the store uses of the core.
#include "bindings/register.h"

namespace dsrt::bindings {

void register_store(pybind11::module_& module) {
  register_shard_writer(module);
  register_shard_set(module);
  register_plain_bytes(module);
  register_mapped_file(module);
}

}  // namespace dsrt::bindings
