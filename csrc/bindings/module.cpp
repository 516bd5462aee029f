// module.cpp: the list of what Python sees of the core. Signatures stand in
// dsrt_lightning/_core.pyi.
#include "bindings/register.h"

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  dsrt::bindings::register_errors(module);
  dsrt::bindings::register_store(module);
  dsrt::bindings::register_reader(module);
  dsrt::bindings::register_draws(module);
}
