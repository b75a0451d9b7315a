"""A server that sends the bytes it is told to, whatever HTTP says: for answers that no honest server gives."""

import socket
import threading
from contextlib import contextmanager, suppress


class RawServer:
    """Answers each request with what `answer(path, send)` sends. A client that hangs up ends the answer.

    Attributes:
        answer: A function of the path, of the headers as text, and of a function that sends bytes.
        num_sent: Bytes that were sent.
        asked: The paths that were asked for.
    """

    def __init__(self, listener):
        self._listener = listener
        self.answer = None
        self.num_sent = 0
        self.asked = []
        self.is_closing = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self):
        while not self.is_closing.is_set():
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection):
        with connection, suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                received = connection.recv(4096)
                if not received:
                    return
                request += received
            path = request.split()[1].decode()
            self.asked.append(path)

            def send(content):
                connection.sendall(content)
                self.num_sent += len(content)
                if self.is_closing.is_set():
                    raise OSError

            self.answer(path, send)
            connection.shutdown(socket.SHUT_WR)


@contextmanager
def serving_raw(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        server = RawServer(listener)
        server.answer = answer
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.is_closing.set()
            thread.join()
