// shard_set.cpp: dsrt::CacheFiles and dsrt::ShardSet for Python.
#include "dsrt/shard_set.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/record_view.h"
#include "bindings/register.h"
#include "dsrt/record_access.h"
#include "dsrt/verify_cache.h"

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

using Rows = py::array_t<std::int64_t>;

Verify to_verify(const std::string& name) {
  if (name == "first") return Verify::first;
  if (name == "always") return Verify::always;
  if (name == "never") return Verify::never;
  throw std::invalid_argument("verify is '" + name + "'; choose first, always or never");
}

CacheFiles to_cache_files(std::string directory, std::uint64_t num_records,
                          std::uint64_t index_bytes, std::uint32_t index_crc32c,
                          std::vector<std::pair<std::string, std::uint64_t>> shards,
                          bool compressed, std::string dictionary, std::uint64_t max_record_bytes) {
  CacheFiles files{std::move(directory), num_records,           index_bytes,     index_crc32c, {},
                   compressed,           std::move(dictionary), max_record_bytes};
  for (auto& [path, bytes] : shards) files.shards.push_back({std::move(path), bytes});
  return files;
}

py::list read_many(RecordAccess& access, const std::vector<std::int64_t>& rows) {
  RawRecords records;
  {
    const py::gil_scoped_release released;
    records = access.read(rows);
  }
  py::list views;
  append_views(access.shards(), records, views);
  return views;
}

std::vector<std::string> verify(const RecordAccess& access, std::size_t cache,
                                const std::optional<py::function>& on_progress) {
  const ShardSet& shards = *access.shards();
  if (cache >= shards.num_caches()) {
    throw std::out_of_range("cache " + std::to_string(cache) + " is outside [0, " +
                            std::to_string(shards.num_caches()) + ")");
  }
  const py::gil_scoped_release released;
  return verify_cache(shards, cache, [&](std::uint64_t num_done) {
    const py::gil_scoped_acquire acquired;
    if (on_progress) (*on_progress)(num_done);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
}

}  // namespace

void register_shard_set(py::module_& module) {
  register_record_view(module);

  py::class_<CacheFiles>(module, "CacheFiles")
      .def(py::init(&to_cache_files), py::kw_only(), py::arg("directory"), py::arg("num_records"),
           py::arg("index_bytes"), py::arg("index_crc32c"), py::arg("shards"),
           py::arg("compressed"), py::arg("dictionary"), py::arg("max_record_bytes"))
      .def_readonly("directory", &CacheFiles::directory)
      .def_readonly("num_records", &CacheFiles::num_records);

  py::class_<RecordAccess, std::shared_ptr<RecordAccess>>(module, "ShardSet")
      .def(py::init([](std::vector<CacheFiles> caches, const std::string& policy) {
             const Verify when = to_verify(policy);
             const py::gil_scoped_release released;
             return std::make_shared<RecordAccess>(
                 std::make_shared<const ShardSet>(std::move(caches), when));
           }),
           py::arg("caches"), py::arg("verify"))
      .def_property_readonly(
          "num_records", [](const RecordAccess& access) { return access.shards()->num_records(); })
      .def_property_readonly("bases",
                             [](const RecordAccess& access) {
                               const auto bases = access.shards()->bases();
                               return std::vector<std::int64_t>(bases.begin(), bases.end() - 1);
                             })
      .def(
          "read",
          [](RecordAccess& access, std::int64_t row) {
            return py::object(read_many(access, {row})[0]);
          },
          py::arg("row"))
      .def(
          "read_many",
          [](RecordAccess& access, const Rows& rows) {
            return read_many(access, to_rows(rows, *access.shards()));
          },
          py::arg("rows").noconvert())
      .def("verify_cache", &verify, py::arg("ordinal"), py::arg("on_progress") = py::none());
}

}  // namespace dsrt::bindings
