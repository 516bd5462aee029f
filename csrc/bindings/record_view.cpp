#include "bindings/record_view.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

// Lends its bytes to memoryviews; `owner` is what keeps them.
struct RecordBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

int get_buffer(PyObject* exporter, Py_buffer* view, int flags) {
  const auto bytes = py::cast<const RecordBytes&>(py::handle(exporter)).bytes;
  static std::byte nothing;  // An empty record may have no address, a buffer must have one.
  void* data = bytes.empty() ? &nothing : const_cast<std::byte*>(bytes.data());
  return PyBuffer_FillInfo(view, exporter, data, static_cast<Py_ssize_t>(bytes.size()), 1, flags);
}

void lend_buffers(PyHeapTypeObject* type) {
  type->as_buffer.bf_getbuffer = &get_buffer;
  type->ht_type.tp_as_buffer = &type->as_buffer;
}

}  // namespace

void register_record_view(py::module_& module) {
  py::class_<RecordBytes>(module, "RecordBytes", py::custom_type_setup(&lend_buffers));
}

void append_views(const std::shared_ptr<const ShardSet>& shards, const RawRecords& records,
                  py::list& views) {
  const auto owner = std::make_shared<
      const std::pair<std::shared_ptr<const ShardSet>, std::shared_ptr<std::byte>>>(shards,
                                                                                    records.memory);
  for (const std::span<const std::byte> bytes : records.bytes) {
    const py::object exporter = py::cast(RecordBytes{bytes, owner});
    PyObject* view = PyMemoryView_FromObject(exporter.ptr());
    if (view == nullptr) throw py::error_already_set();
    views.append(py::reinterpret_steal<py::object>(view));
  }
}

std::vector<std::int64_t> to_rows(const py::array_t<std::int64_t>& array, const ShardSet& shards) {
  if (array.ndim() != 1) {
    throw std::invalid_argument("rows has " + std::to_string(array.ndim()) +
                                " dimensions but 1 is expected");
  }
  const auto values = array.unchecked<1>();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(values.shape(0)));
  for (py::ssize_t i = 0; i < values.shape(0); ++i) {
    shards.check_row(values(i));
    rows[static_cast<std::size_t>(i)] = values(i);
  }
  return rows;
}

}  // namespace dsrt::bindings
