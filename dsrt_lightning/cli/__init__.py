"""``dsrt``: build, look at, check and repair caches, preview what a config selects, and trace a run.

Only ``build`` and ``repair`` write. Exit codes: 0 done; 1 the data are broken or missing; 2 the command or a config
is wrong; 130 Ctrl-C. An error is one line on stderr; ``--traceback`` shows where it came from.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dsrt_lightning.cli import build, inspect, preview, repair, trace, verify
from dsrt_lightning.errors import ConfigError, DsrtError

COMMANDS = (build, inspect, verify, repair, preview, trace)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command; ``run`` in its result is the chosen command's function."""
    parser = argparse.ArgumentParser(
        prog="dsrt",
        description="Build, look at, check and repair caches, preview what a config selects, and trace a run.",
        epilog="example:\n  dsrt build --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        command = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.add_argument("--traceback", action="store_true", help="show where an error came from")
        command.set_defaults(run=module.run, name_of_command=module.NAME)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; ``argv`` defaults to the process's arguments."""
    args = make_parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe such as `| head` has gone. Python flushes stdout at exit: give it nothing to fail on.
        sys.stdout = None
        return 1
    except KeyboardInterrupt:
        if args.traceback:
            raise
        print(f"dsrt {args.name_of_command}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if args.traceback:
            raise
        print(f"dsrt {args.name_of_command}: {_describe(error)}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError | ValueError) else 1
    return code


def _describe(error: Exception) -> str:
    """Return the error's own text where it was written for people, else its type too."""
    if isinstance(error, DsrtError | ValueError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}"
