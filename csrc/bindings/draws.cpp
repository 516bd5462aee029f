// draws.cpp: dsrt::Draws and its modes for Python.
#include "dsrt/draws.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "bindings/register.h"
#include "dsrt/alias_table.h"

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

template <typename Value>
using Array = py::array_t<Value, py::array::c_style>;

template <typename Value>
std::span<const Value> values_of(const Array<Value>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// The columns of an array [n, 2] of (threshold, alias), or none for None.
std::span<const AliasColumn> columns_of(const std::optional<Array<std::uint64_t>>& table) {
  if (!table) return {};
  if (table->ndim() != 2 || table->shape(1) != 2) {
    throw std::invalid_argument("the alias table has " + std::to_string(table->ndim()) +
                                " axes but must be uint64 [rows, 2]; build the table anew");
  }
  return {reinterpret_cast<const AliasColumn*>(table->data()),
          static_cast<std::size_t>(table->shape(0))};
}

Array<std::uint64_t> make_alias_table(const Array<double>& weights) {
  Array<std::uint64_t> table({weights.size(), py::ssize_t{2}});
  const std::span columns(reinterpret_cast<AliasColumn*>(table.mutable_data()),
                          static_cast<std::size_t>(weights.size()));
  const py::gil_scoped_release released;
  build_alias_table(values_of(weights), columns);
  return table;
}

Array<std::int64_t> draw(const Draws& draws, std::int64_t epoch, std::int64_t pass,
                         std::int64_t start, std::int64_t count) {
  draws.check(epoch, pass, start, count);  // before memory is taken
  Array<std::int64_t> rows(count);
  const std::span<std::int64_t> out(rows.mutable_data(), static_cast<std::size_t>(count));
  const py::gil_scoped_release released;
  draws.draw(epoch, pass, start, out);
  return rows;
}

}  // namespace

void register_draws(py::module_& module) {
  module.def("build_alias_table", &make_alias_table, py::arg("weights").noconvert());

  py::class_<Draws>(module, "Draws")
      .def_property_readonly("num_rows", &Draws::num_rows)
      .def_property_readonly("epoch_length", &Draws::epoch_length)
      .def("draw", &draw, py::arg("epoch"), py::arg("pass_"), py::arg("start"), py::arg("count"));

  py::class_<SequentialDraws, Draws>(module, "SequentialDraws")
      .def(py::init<std::uint64_t, std::uint64_t>(), py::arg("num_rows"), py::arg("epoch_length"));

  py::class_<ShuffleDraws, Draws>(module, "ShuffleDraws")
      .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t>(), py::arg("num_rows"),
           py::arg("epoch_length"), py::arg("seed"));

  py::class_<WeightedDraws, Draws>(module, "WeightedDraws")
      .def(py::init([](std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed,
                       const std::optional<Array<std::uint64_t>>& table) {
             return std::make_unique<WeightedDraws>(num_rows, epoch_length, seed,
                                                    columns_of(table));
           }),
           py::keep_alive<1, 5>(), py::arg("num_rows"), py::arg("epoch_length"), py::arg("seed"),
           py::arg("table").noconvert());
}

}  // namespace dsrt::bindings
