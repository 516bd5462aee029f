#include "bindings/record_view.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "dsrt/record_block.h"

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

constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
constexpr std::uint64_t pickle_buffer_alignment = 16;

py::object part(py::handle view, std::uint64_t begin, std::uint64_t end) {
  PyObject* slice =
      PySequence_GetSlice(view.ptr(), static_cast<Py_ssize_t>(begin), static_cast<Py_ssize_t>(end));
  if (slice == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(slice);
}

// The pickle of a record of codec `pickle` and its buffers, or None if the record is none; the
// layout is told in pickle_codec.py.
py::object split_pickle_record(const py::memoryview& record) {
  const Py_buffer* view = PyMemoryView_GET_BUFFER(record.ptr());
  const auto* data = static_cast<const std::byte*>(view->buf);
  const auto bytes = static_cast<std::uint64_t>(view->len);
  const auto word = [&](std::uint64_t number) {
    std::uint64_t value = 0;
    std::memcpy(&value, data + number * word_bytes, word_bytes);
    return value;
  };
  if (bytes < 2 * word_bytes || word(0) > bytes / word_bytes - 2) return py::none();
  const std::uint64_t num_buffers = word(0);
  const std::uint64_t begin = (2 + num_buffers) * word_bytes;
  if (word(1) > bytes - begin) return py::none();
  std::uint64_t end = begin + word(1);
  const py::object stream = part(record, begin, end);
  py::list buffers;
  for (std::uint64_t i = 0; i < num_buffers; ++i) {
    const std::uint64_t start = align_up(end, pickle_buffer_alignment);
    if (start > bytes || word(2 + i) > bytes - start) return py::none();
    end = start + word(2 + i);
    buffers.append(part(record, start, end));
  }
  return end == bytes ? py::object(py::make_tuple(stream, buffers)) : py::none();
}

}  // namespace

void register_record_view(py::module_& module) {
  py::class_<RecordBytes>(module, "RecordBytes", py::custom_type_setup(&lend_buffers));
  module.def("split_pickle_record", &split_pickle_record, py::arg("record"));
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
