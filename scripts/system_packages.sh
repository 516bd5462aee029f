#!/usr/bin/env bash
# system_packages.sh PYTHON: makes sure that a compiler, libzstd, ISA-L, and PYTHON's headers and venv module are here.
#
# Installs what is missing through apt-get when run by root. Otherwise prints the command to run and exits 1.
# Looks for the things themselves, not for packages, so that whatever provides them is enough.
set -euo pipefail
python=$1
packages=()

have_library() { # HEADER LIBRARY
  echo "#include <$1>
int main() {}" | c++ -x c++ - -o /dev/null "-l$2" 2>/dev/null
}

command -v "$python" >/dev/null || {
  echo "$python: not found; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11" >&2
  exit 1
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "$("$python" --version) is older than 3.11, which constraints.txt needs; name a newer one: make PYTHON=python3.11" >&2
  exit 1
}
command -v c++ >/dev/null || packages+=(g++)
have_library zstd.h zstd || packages+=(libzstd-dev)
have_library isa-l/crc.h isal || packages+=(libisal-dev)
"$python" -c 'import ensurepip' 2>/dev/null || packages+=("$(basename "$python")-venv")
"$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
  packages+=("$(basename "$python")-dev")
[ ${#packages[@]} -gt 0 ] || exit 0

install=(apt-get install -y --no-install-recommends "${packages[@]}")
if ! command -v apt-get >/dev/null; then
  echo "Missing: what Debian calls ${packages[*]}. Install them with this system's package manager, then run make again." >&2
  exit 1
elif [ "$(id -u)" != 0 ]; then
  printf 'Missing: %s. Run this, then make again:\n\n  sudo %s\n\n' "${packages[*]}" "${install[*]}" >&2
  exit 1
fi
apt-get update
DEBIAN_FRONTEND=noninteractive "${install[@]}"
