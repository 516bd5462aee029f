// plain_bytes.cpp: what Python asks the core about bytes of its own.
#include "bindings/register.h"
#include "dsrt/crc32c.h"
#include "dsrt/string_views.h"

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

std::span<const std::byte> bytes_of(const py::buffer_info& info) {
  if (!PyBuffer_IsContiguous(info.view(), 'C')) throw py::value_error("data is not C-contiguous");
  return {static_cast<const std::byte*>(info.ptr),
          static_cast<std::size_t>(info.size * info.itemsize)};
}

std::uint32_t checksum(const py::buffer& data, std::uint32_t before) {
  const py::buffer_info info = data.request();
  const std::span<const std::byte> bytes = bytes_of(info);
  const py::gil_scoped_release released;
  return crc32c(bytes, before);
}

bool short_ascii(const py::buffer& views) {
  const py::buffer_info info = views.request();
  const std::span<const std::byte> bytes = bytes_of(info);
  const py::gil_scoped_release released;
  return are_short_ascii(bytes);
}

}  // namespace

void register_plain_bytes(py::module_& module) {
  module.def("crc32c", &checksum, py::arg("data"), py::arg("before") = 0);
  module.def("are_short_ascii", &short_ascii, py::arg("views"));
}

}  // namespace dsrt::bindings
