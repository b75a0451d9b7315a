"""The command line: one file per command, and one place where errors and interruptions become one line.

Commands import what they need when they run, so that `tdegnn --help` does not wait for torch.
"""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tdegnn.quick_imports import collection_paused
from tdegnn.torchrun import read_launch, takes_the_word

if TYPE_CHECKING:
    import typer

# Commands that processes of `torchrun` share: they train together, or work on one search.
SHARED = ("fit", "classify", "sweep")
# Removes an unfinished line of a progress bar, and shows the cursor that it hid.
CLEAR_LINE = b"\r\x1b[2K\x1b[?25h"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. For a mistake of the user, print one line and exit with 2, never a traceback.

    If the process is interrupted (Ctrl-C) or terminated, it says in one line how to continue, and ends.

    Args:
        arguments: What follows the name of the program. If None, what was typed. Only then, signals are handled: the
            process has nothing else to do.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    stop = _Stop(words)
    if arguments is None:
        stop.handle_signals()
    is_quiet = not {"--quiet", "-q"}.isdisjoint(words) or not read_launch().is_first
    with _any_text_printed(), _notes_printed(is_quiet=is_quiet):
        code, message = _run(words)
        if message and takes_the_word():
            _print_error(f"Error: {_on_one_line(message)}")
    stop.final_code = code
    sys.exit(code)


def _run(words: list[str]) -> tuple[int, str]:
    """Run a command. Return its exit code, and the message if it failed."""
    with collection_paused():
        import typer

        from tdegnn.cli.commands import app
        from tdegnn.errors import InputError, TdegnnError

    try:
        _check_processes(words)
        code = app(args=words, prog_name="tdegnn", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except TdegnnError as error:
        return (2 if isinstance(error, InputError) else 1), error.as_options()
    except typer.TyperException as error:
        return error.exit_code, _describe_usage(error)
    except OSError as error:
        return 2, (
            f"Expected to use {error.filename or 'a file'}, got a system error ({error.strerror or error}). Check the "
            "path and the disk."
        )
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return 2, (
            "Expected enough memory for this command, got too little. Close other programs, or try smaller inputs or "
            "smaller settings."
        )
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    # Typer catches KeyboardInterrupt too.
    return (code if isinstance(code, int) else 0), ("Interrupted." if code == 130 else "")


def _check_processes(words: list[str]) -> None:
    """Raise an `InputError` for a command that several processes cannot share."""
    from tdegnn.errors import InputError

    launch = read_launch()
    if launch.are_several and words and words[0] not in SHARED and "--help" not in words:
        raise InputError(
            f"Expected one process for tdegnn {words[0]}, got {launch.size} of torchrun. Start it without torchrun, "
            f"which is for {', '.join(SHARED[:-1])} and {SHARED[-1]}."
        )


def _describe_usage(error: typer.TyperException) -> str:
    """Return what is wrong with the arguments, and the command whose help to read: errors of parsing know it."""
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    if not message:  # without a command, the help is printed
        return ""
    context = getattr(error, "ctx", None)
    command = "tdegnn" if context is None else str(context.command_path)
    return f"{message}{'' if message.endswith('?') else '.'} Try: {command} --help"


def _is_out_of_memory(error: Exception) -> bool:
    # On a CPU, torch raises a RuntimeError without a class of its own.
    return isinstance(error, MemoryError) or any(
        text in str(error) for text in ("can't allocate memory", "not enough memory", "CUDA out of memory")
    )


class _Stop:
    """Ends the process at a signal that asks for it, and says how to continue.

    It ends at once, without an exception: some libraries suppress exceptions, or crash if one comes while they are
    imported. Nothing is lost by that, as all files are written so that the process may be killed at any moment.

    Args:
        words: The arguments of the command line.

    Attributes:
        final_code: The exit code, once the command has ended. From then on, nothing is said.
    """

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._num_signals = 0
        self.final_code: int | None = None

    def handle_signals(self) -> None:
        """Handle signals until the process ends, except signals that it was started to ignore."""
        if threading.current_thread() is not threading.main_thread():
            return  # Python handles signals in the main thread
        # SIGHUP, of a terminal that is closed, does not exist on Windows.
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
                # At the very end Python would give the signals their usual meaning back.
                atexit.register(signal.signal, number, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._num_signals += 1
        if self._num_signals == 2:
            return  # came while the first one is handled, which takes a moment
        code = 128 + number if self.final_code is None else self.final_code
        try:
            if self.final_code is None and self._num_signals == 1:
                happened = "Interrupted." if number == signal.SIGINT else "Terminated."
                line = f"{happened} {self._advise()}".strip()
                self._flush()
                if not takes_the_word():
                    return
                # Not by a stream, which may be in the middle of a line.
                os.write(2, (CLEAR_LINE if os.isatty(2) else b"") + f"{line}\n".encode(errors="backslashreplace"))
        except OSError:
            pass  # the error output is closed
        finally:
            os._exit(code)

    @staticmethod
    def _flush() -> None:
        # Fails if it was printing when the signal came.
        with suppress(RuntimeError, OSError, ValueError, AttributeError):
            sys.stdout.flush()

    def _advise(self) -> str:
        if self._words[:1] in (["sweep"], ["reproduce"]):
            return "Run the same command again to continue."
        return f"Continue with: {self._continuation()}" if "--resume" in self._words or self._has_begun() else ""

    def _continuation(self) -> str:
        """Return the command that was typed, with `--resume`."""
        words = self._words.copy()
        if "--resume" not in words:
            words.insert(words.index("--") if "--" in words else len(words), "--resume")
        launch = read_launch()
        by = ["torchrun", "--nproc-per-node", str(launch.local_size), "-m"] if launch.are_several else []
        return " ".join([*by, "tdegnn", *map(_quote, words)])

    def _has_begun(self) -> bool:
        """Return whether there is something to continue with `--resume`."""
        # What is not imported yet has not begun anything.
        commands: Any
        folders: Any
        commands, folders = (sys.modules.get(f"tdegnn.{name}") for name in ("cli.commands", "runs.run_folder"))
        if not self._words or not hasattr(commands, "app") or not hasattr(folders, "RunFolder"):
            return False
        from typer.main import get_command

        name, *rest = self._words
        command = getattr(get_command(commands.app), "commands", {}).get(name)
        if command is None or all(option.name != "resume" for option in command.params):
            return False
        out = command.make_context(name, rest, resilient_parsing=True).params["out"]
        return isinstance(out, Path) and folders.RunFolder.is_begun(out)


@contextmanager
def _any_text_printed() -> Iterator[None]:
    """Print what the encoding of the output lacks as escapes, such as parts of file names that are not UTF-8."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if hasattr(stream, "reconfigure")]
    before = [stream.errors for stream in streams]
    for stream in streams:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream, errors in zip(streams, before, strict=True):
            stream.reconfigure(errors=errors)


class _NotePrinter(logging.Handler):
    """Prints what the library logs, one line each, on the error stream."""

    def emit(self, record: logging.LogRecord) -> None:
        _print_error(f"Note: {_on_one_line(record.getMessage())}")


@contextmanager
def _notes_printed(*, is_quiet: bool) -> Iterator[None]:
    """Print what the library logs while it works, such as a download that begins, unless `is_quiet` is set."""
    logger, printer = logging.getLogger("tdegnn"), _NotePrinter()
    before = logger.level
    logger.setLevel(logging.WARNING if is_quiet else logging.INFO)
    logger.addHandler(printer)
    try:
        yield
    finally:
        logger.removeHandler(printer)
        logger.setLevel(before)


def _print_error(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def _on_one_line(text: str) -> str:
    """Return text without line breaks and control characters, which could change what a terminal shows."""
    joined = " ".join(text.split())
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in joined)


def _quote(word: str) -> str:
    """Return an argument as it is typed in a shell."""
    if word.isprintable():
        return shlex.quote(word)
    plain = set(range(32, 127)) - set(b"\\'")
    return "$'" + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in os.fsencode(word)) + "'"
