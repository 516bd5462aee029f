// checksum.cpp: dsrt::crc32c for Python.
#include "bindings/register.h"
#include "dsrt/crc32c.h"

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

std::uint32_t checksum(const py::buffer& data, std::uint32_t before) {
  const py::buffer_info info = data.request();
  if (!PyBuffer_IsContiguous(info.view(), 'C')) throw py::value_error("data is not C-contiguous");
  const std::size_t bytes = static_cast<std::size_t>(info.size * info.itemsize);
  const py::gil_scoped_release released;
  return crc32c({static_cast<const std::byte*>(info.ptr), bytes}, before);
}

}  // namespace

void register_checksum(py::module_& module) {
  module.def("crc32c", &checksum, py::arg("data"), py::arg("before") = 0);
}

}  // namespace dsrt::bindings
