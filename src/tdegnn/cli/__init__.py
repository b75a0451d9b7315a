"""The command line: one file per command, and one place where errors and interruptions become one line.

Commands import what they need when they run, so that `tdegnn --help` does not wait for torch.
"""

from __future__ import annotations

import _thread
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

# Seconds that a command has to end by itself after an interruption. Then it is ended: no file suffers from that.
SECONDS_TO_END = 3.0
SHOW_CURSOR = b"\x1b[?25h"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. For a mistake of the user, print one line and exit with 2, never a traceback.

    If it is interrupted (Ctrl-C) or terminated, it says in one line how to continue. The second time it exits at once.

    Args:
        arguments: What follows the name of the program. If None, what was typed: then the process is about to end, and
            signals are not handled as before afterwards.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    stop = _Stop(words)
    with stop.handling_signals(is_last=arguments is None), _any_text_printed():
        try:
            try:
                code, message = _run(words)
            finally:
                stop.is_raising = False
        except BaseException:
            # Libraries turn an interruption into errors of their own, for example when it comes during an import.
            if stop.code is None:
                raise
        if stop.code is not None:
            stop.say()
        elif message:
            _print_error(f"Error: {_on_one_line(message)}")
        stop.final_code = code if stop.code is None else stop.code
        sys.exit(stop.final_code)


def _run(words: list[str]) -> tuple[int, str]:
    """Run a command. Return its exit code, and the message if it failed."""
    import typer

    from tdegnn.cli.commands import app
    from tdegnn.errors import InputError, TdegnnError

    try:
        code = app(args=words, prog_name="tdegnn", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except TdegnnError as error:
        return (2 if isinstance(error, InputError) else 1), error.as_options()
    except typer.TyperException as error:
        return error.exit_code, _describe_usage(error)
    except OSError as error:
        return 2, f"Could not use {error.filename or 'a file'}: {error.strerror or error}."
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return 2, (
            "Expected enough memory for this command, got too little. Close other programs, or try smaller inputs or "
            "smaller settings."
        )
    except (KeyboardInterrupt, typer.Abort):
        return 130, "Interrupted."
    return (code if isinstance(code, int) else 0), ""


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
    """Handles signals that ask the process to end: the first one raises KeyboardInterrupt, the next one ends it.

    Args:
        words: The arguments of the command line.

    Attributes:
        code: The exit code after a signal. None if there was none.
        final_code: The exit code, once the command has ended. From then on, a signal only makes the exit quicker.
        is_raising: Whether a signal raises KeyboardInterrupt.
    """

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self.code: int | None = None
        self.final_code: int | None = None
        self.is_raising = True
        self._is_said = False
        self._show_unraisable = sys.unraisablehook

    @contextmanager
    def handling_signals(self, *, is_last: bool) -> Iterator[None]:
        """Handle signals inside the `with` block, and after it if nothing follows.

        Python handles signals in the main thread only, and a process may have been started to ignore them.
        """
        is_main = threading.current_thread() is threading.main_thread()
        usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        handled = [number for number, handler in usual.items() if is_main and signal.getsignal(number) is handler]
        self._show_unraisable = sys.unraisablehook
        for number in handled:
            signal.signal(number, self._handle)
        if handled:
            sys.unraisablehook = self._see_unraisable
        try:
            yield
        finally:
            if not is_last:
                sys.unraisablehook = self._show_unraisable
                for number in handled:
                    signal.signal(number, usual[number])

    def say(self) -> None:
        """Print that the command was interrupted, and how to continue."""
        self._is_said = True  # from now on, signals wait until it is printed
        _print_error(self._describe())

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.final_code is not None:
            os._exit(self.final_code)
        if self.code is not None and not self._is_said:
            self._exit_now()
        self.code = 128 + number
        if not self.is_raising:
            return
        # Not `threading.Thread`, whose locks the interrupted function may hold.
        _thread.start_new_thread(self._exit_later, ())
        raise KeyboardInterrupt

    def _exit_later(self) -> None:
        time.sleep(SECONDS_TO_END)
        self._exit_now()

    def _see_unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        # The interruption came while Python deleted an object, and would be forgotten.
        if self.code is not None:
            self._exit_now()
        self._show_unraisable(unraisable)

    def _exit_now(self) -> None:
        """End the process, without an exception, which could be lost on its way."""
        try:
            if not self._is_said:
                self._is_said = True
                cursor = SHOW_CURSOR if os.isatty(2) else b""
                os.write(2, cursor + f"{self._describe()}\n".encode(errors="backslashreplace"))
        finally:
            os._exit(self.code or 1)

    def _describe(self) -> str:
        happened = "Terminated." if self.code == 128 + signal.SIGTERM else "Interrupted."
        if self._words[:1] == ["sweep"]:
            return f"{happened} Run the same command again to continue."
        return f"{happened} Continue with: {self._continuation()}" if self._has_begun() else happened

    def _continuation(self) -> str:
        """Return the command that was typed, with `--resume`."""
        words = self._words.copy()
        if "--resume" not in words:
            words.insert(words.index("--") if "--" in words else len(words), "--resume")
        return " ".join(["tdegnn", *map(_quote, words)])

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
