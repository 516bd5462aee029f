// run_corpus.cpp: runs a fuzz target once on each file of the folders named on the command line, so
// that what a fuzzer found stays found with any compiler.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "tests/temp_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int num_arguments, char** arguments) {
  std::size_t num_files = 0;
  for (int i = 1; i < num_arguments; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
      const std::string content = dsrt::tests::read_file(entry.path());
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
      ++num_files;
    }
  }
  std::cout << num_files << " inputs\n";
  return num_files > 0 ? 0 : 1;
}
