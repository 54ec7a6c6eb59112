"""HTTP/3 by aioquic: python aioquic_client.py COMMAND PORT [ARGUMENT], one line of result each.

`misbehave` has a connection for each case: what the client sends, and after a colon what the server
made of it - a status, or the error of the stream or the connection.
"""

import asyncio
import socket
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import ErrorCode, H3Connection, encode_frame
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

DATA, HEADERS, CANCEL_PUSH, SETTINGS, GOAWAY, MAX_PUSH_ID = 0x0, 0x1, 0x3, 0x4, 0x7, 0xD
PUSH_PROMISE, PRIORITY_UPDATE, PRIORITY_UPDATE_OF_PUSH = 0x5, 0xF0700, 0xF0701

# What has not come of a broken rule so many seconds after the server had it does not come.
SILENCE = 2


class Client(QuicConnectionProtocol):
    """A connection, and what came of each of its streams."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = None
        self.status, self.length, self.body = {}, {}, {}
        self.ended, self.failed = set(), {}
        self.terminated = None
        self.early = None
        self.changed = asyncio.Event()

    def quic_event_received(self, event):
        if isinstance(event, events.ConnectionTerminated):
            self.terminated = event.error_code
        elif isinstance(event, (events.StreamReset, events.StopSendingReceived)):
            self.failed.setdefault(event.stream_id, event.error_code)
        elif isinstance(event, events.HandshakeCompleted):
            self.early = event.early_data_accepted
        for one in self.http.handle_event(event) if self.http else []:
            stream = one.stream_id
            if isinstance(one, HeadersReceived):
                self.status.setdefault(stream, dict(one.headers).get(b":status", b"").decode())
            elif isinstance(one, DataReceived):
                self.length[stream] = self.length.get(stream, 0) + len(one.data)
                self.body[stream] = one.data
            if one.stream_ended:
                self.ended.add(stream)
        self.changed.set()

    async def until(self, condition, patience=20):
        """Waits until the condition holds; false where it does not in time."""
        try:
            async with asyncio.timeout(patience):
                while not condition():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        return True

    def ask(self, method, path, body=b""):
        """Begins a request; gives the number of its stream."""
        stream = self._quic.get_next_available_stream_id()
        length = [(b"content-length", str(len(body)).encode())] if body else []
        self.http.send_headers(stream, pseudo(method, path) + length, end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return stream

    async def answer(self, stream):
        """Waits for the whole response: its status and length."""
        await self.until(lambda: stream in self.ended or self.is_over(stream))
        return f"{self.status.get(stream)} {self.length.get(stream, 0)}"

    def is_over(self, stream):
        return stream in self.failed or self.terminated is not None

    def send(self, stream, data, end=False):
        self._quic.send_stream_data(stream, data, end)
        self.transmit()

    def uni(self, data):
        """Opens a stream of one direction that begins with these bytes."""
        stream = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self.send(stream, data)
        return stream

    def bidi(self, data, end=True):
        """Opens a request stream with these bytes."""
        stream = self._quic.get_next_available_stream_id()
        self.send(stream, data, end)
        return stream


def pseudo(method="GET", path="/10"):
    return [
        (b":method", method.encode()),
        (b":scheme", b"https"),
        (b":authority", b"localhost"),
        (b":path", path.encode()),
    ]


def open_connection(port, ticket=None, tickets=None, wait=True):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"])
    configuration.verify_mode = ssl.CERT_NONE
    configuration.server_name = "localhost"
    configuration.max_data = configuration.max_stream_data = 16 << 20
    configuration.session_ticket = ticket
    return connect(
        "127.0.0.1",
        port,
        configuration=configuration,
        create_protocol=Client,
        session_ticket_handler=tickets,
        wait_connected=wait,
    )


def with_http(client):
    client.http = H3Connection(client._quic)
    return client


async def get(port, path="/10"):
    async with open_connection(port) as client:
        print(await with_http(client).answer(client.ask("GET", path)))


async def post(port, size):
    async with open_connection(port) as client:
        stream = with_http(client).ask("POST", "/", bytes(int(size)))
        await client.answer(stream)
        print(client.status.get(stream), client.body[stream].decode())


async def many(port, count):
    """So many at a time."""
    async with open_connection(port) as client:
        streams = [with_http(client).ask("GET", "/1000")]
        streams += [client.ask("GET", "/1000") for _ in range(int(count) - 1)]
        answers = [await client.answer(stream) for stream in streams]
        print(answers.count("200 1000"))


async def midway(port, size, act):
    """A download, in the middle of which something is done."""
    async with open_connection(port) as client:
        stream = with_http(client).ask("GET", f"/{size}")
        await client.until(lambda: client.length.get(stream, 0) > int(size) // 8)
        before = client.length[stream]
        await act(client)
        print(await client.answer(stream), "midway" if before < int(size) else "too late")


async def migrate(port, size):
    async def move(client):
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0))
        old = client._transport
        loop = asyncio.get_running_loop()
        # The protocol takes the transport that was made last; the old port is closed.
        await loop.create_datagram_endpoint(lambda: client, sock=sock)
        old.abort()
        client.change_connection_id()
        await client.ping()

    await midway(port, size, move)


async def keys(port, size):
    async def update(client):
        for _ in range(3):
            client.request_key_update()
            await client.ping()

    await midway(port, size, update)


async def early(port):
    """Whether a ticket allows early data, and what becomes of a POST that is sent all the same."""
    tickets = []
    async with open_connection(port, tickets=tickets.append) as client:
        await with_http(client).answer(client.ask("GET", "/10"))
        await client.until(lambda: tickets)
    ticket = tickets[0]
    offered = ticket.max_early_data_size
    ticket.max_early_data_size = 0xFFFFFFFF
    async with open_connection(port, ticket=ticket, wait=False) as client:
        with_http(client).ask("POST", "/early", b"x" * 10)
        await client.until(lambda: client.early is not None)
        print(f"offered {offered}, accepted {client.early}")


async def misbehave(port):
    few = asyncio.Semaphore(8)

    async def one_of_few(case):
        async with few:
            return await outcome(port, case)

    told = await asyncio.gather(*(one_of_few(case) for case in CASES.values()))
    for name, outcome_of_it in zip(CASES, told):
        print(f"{name}: {outcome_of_it}")
    print(f"requests taken back: {await outcome(port, flood)}")


async def outcome(port, case):
    async with open_connection(port) as client:
        if not case.__name__.startswith("control"):
            with_http(client)
        stream = case(client)
        if asyncio.iscoroutine(stream):
            stream = await stream
        over = lambda: client.is_over(stream) or stream in client.ended
        if not over():
            try:
                await client.ping()
            except ConnectionError:
                pass
        if not await client.until(over, SILENCE):
            return "silence"
        if stream in client.status:
            return client.status[stream]
        # Where the connection fails its stream may be seen to fail before.
        await client.until(lambda: client.terminated is not None, 0.5)
        if client.terminated is not None:
            return f"connection {code(client.terminated)}"
        return f"stream {code(client.failed[stream])}"


def code(number):
    try:
        return ErrorCode(number).name
    except ValueError:
        return hex(number)


def integer(value, bits, flags):
    """RFC 7541, section 5.1."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([flags | value])
    rest, out = value - most, [flags | most]
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes(out + [rest])


def field(name, value):
    """A field whose name and value are literal (RFC 9204, section 4.5.6)."""
    return integer(len(name), 3, 0x20) + name + integer(len(value), 7, 0) + value


def section(fields, more=b""):
    return b"\0\0" + b"".join(field(*one) for one in fields) + more


def head(fields, more=b""):
    return encode_frame(HEADERS, section(fields, more))


def without(name):
    return [one for one in pseudo() if one[0] != name]


def request(*parts):
    """A case of one request stream."""
    return lambda client: client.bidi(b"".join(parts))


def begun(*parts):
    """A case of one request stream that does not end."""
    return lambda client: client.bidi(b"".join(parts), False)


def control(*parts, end=False):
    """A case of a control stream."""

    def control_case(client):
        stream = client.uni(b"\0" + b"".join(parts))
        if end:
            client.send(stream, b"", True)
        return stream

    return control_case


def control_twice(client):
    client.uni(b"\0" + encode_frame(SETTINGS, b""))
    return client.uni(b"\0" + encode_frame(SETTINGS, b""))


def push_stream(client):
    return client.uni(b"\x01\0")


def encoder_stream(client):
    # Capacity 4096, of which the server allows none.
    stream = client.http._local_encoder_stream_id
    client.send(stream, integer(4096, 5, 0x20))
    return stream


def decoder_stream(client):
    # The acknowledgement of a section that was never sent.
    stream = client.http._local_decoder_stream_id
    client.send(stream, integer(0, 7, 0x80))
    return stream


async def flood(client):
    """Requests that are taken back at once, as many at a time as the server allows."""
    quic = client._quic
    for _ in range(5_000):
        while quic.get_next_available_stream_id() // 4 >= quic._remote_max_streams_bidi:
            client.transmit()
            if client.terminated is not None:
                return -1
            await asyncio.sleep(0.001)
        stream = quic.get_next_available_stream_id()
        quic.send_stream_data(stream, head(pseudo(path="/slow")))
        quic.reset_stream(stream, ErrorCode.H3_REQUEST_CANCELLED)
    client.transmit()
    return -1


def goaway_then_request(client):
    client.send(client.http._local_control_stream_id, encode_frame(GOAWAY, b"\0"))
    return client.ask("GET", "/10")


# The beginning of a frame of a gigabyte, without its type.
GIGABYTE = b"\xbf\xff\xff\xff"
GET = head(pseudo())
POST = pseudo("POST", "/")
NO_SETTINGS = encode_frame(SETTINGS, b"")

CASES = {
    "DATA on the control stream": control(NO_SETTINGS, encode_frame(DATA, b"x")),
    "HEADERS on the control stream": control(NO_SETTINGS, GET),
    "a control stream without SETTINGS": control(encode_frame(GOAWAY, b"\0")),
    "SETTINGS twice": control(NO_SETTINGS, NO_SETTINGS),
    "a setting twice": control(encode_frame(SETTINGS, b"\x06\x10\x06\x10")),
    "a setting of HTTP/2": control(encode_frame(SETTINGS, b"\x02\x00")),
    "a frame of HTTP/2 on the control stream": control(NO_SETTINGS, encode_frame(0x6, b"12345678")),
    "SETTINGS cut short": control(encode_frame(SETTINGS, b"\x06")),
    "the control stream ended": control(NO_SETTINGS, end=True),
    "two control streams": control_twice,
    "MAX_PUSH_ID that shrinks": control(
        NO_SETTINGS, encode_frame(MAX_PUSH_ID, b"\x05"), encode_frame(MAX_PUSH_ID, b"\x04")
    ),
    "CANCEL_PUSH of a push that was not promised": control(
        NO_SETTINGS, encode_frame(MAX_PUSH_ID, b"\x05"), encode_frame(CANCEL_PUSH, b"\x00")
    ),
    "a priority for a push that was not promised": control(
        NO_SETTINGS,
        encode_frame(MAX_PUSH_ID, b"\x05"),
        encode_frame(PRIORITY_UPDATE_OF_PUSH, b"\x00u=0"),
    ),
    "GOAWAY without an id": control(NO_SETTINGS, encode_frame(GOAWAY, b"")),
    "CANCEL_PUSH with half an id": control(NO_SETTINGS, encode_frame(CANCEL_PUSH, b"\x40")),
    "MAX_PUSH_ID with more than an id": control(NO_SETTINGS, encode_frame(MAX_PUSH_ID, b"\x05\0")),
    "PUSH_PROMISE on the control stream": control(NO_SETTINGS, encode_frame(PUSH_PROMISE, b"")),
    "an unknown frame before SETTINGS": control(encode_frame(0x21, b""), NO_SETTINGS),
    "a setting of two values with a third": control(encode_frame(SETTINGS, b"\x08\x02")),
    "a priority for a stream beyond the limit": control(
        NO_SETTINGS, encode_frame(PRIORITY_UPDATE, b"\x80\x01\0\0u=0")
    ),
    "a push stream of the client": push_stream,
    "a table larger than allowed": encoder_stream,
    "an acknowledgement of nothing": decoder_stream,
    "DATA before HEADERS": request(encode_frame(DATA, b"x"), GET),
    "SETTINGS on a request stream": request(encode_frame(SETTINGS, b"")),
    "GOAWAY without an id on a request stream": begun(head(POST), encode_frame(GOAWAY, b"")),
    "PUSH_PROMISE on a request stream": begun(head(POST), encode_frame(PUSH_PROMISE, b"")),
    "a frame of HTTP/2 on a request stream": request(encode_frame(0x2, b"12345"), GET),
    "an unknown frame before HEADERS": request(encode_frame(0x21, b"grease"), GET),
    "a frame of WebTransport before HEADERS": request(encode_frame(0x41, b"x"), GET),
    "an empty stream": request(),
    "HEADERS cut short": request(GET[:-3]),
    "DATA after trailers": request(
        head(POST), encode_frame(DATA, b"x"), head([(b"a", b"b")]), encode_frame(DATA, b"y")
    ),
    "trailers twice": request(head(POST), head([(b"a", b"b")]), head([(b"c", b"d")])),
    "a pseudo-header in trailers": request(head(POST), head([(b":path", b"/")])),
    "HEADERS of 1 GB": begun(b"\x01", GIGABYTE),
    "trailers of 1 GB": begun(head(POST), b"\x01", GIGABYTE),
    "an unknown frame of 1 GB": begun(b"\x21", GIGABYTE),
    "SETTINGS of 1 GB": control(b"\x04", GIGABYTE),
    "headers of 1 MiB": request(head(pseudo() + [(b"a", b"x" * 1024)] * 1024)),
    "a field of 30 KiB": request(head(pseudo() + [(b"a", b"x" * (30 << 10))])),
    "900 empty fields": request(head(pseudo() + [(b"a", b"")] * 900)),
    "50000 empty fields": request(head(pseudo() + [(b"a", b"")] * 50_000)),
    "no :method": request(head(without(b":method"))),
    "no :scheme": request(head(without(b":scheme"))),
    "no :path": request(head(without(b":path"))),
    "no :authority and no host": request(head(without(b":authority"))),
    "an empty :path": request(head(without(b":path") + [(b":path", b"")])),
    ":path twice": request(head(pseudo() + [(b":path", b"/20")])),
    ":method twice": request(head(pseudo() + [(b":method", b"POST")])),
    "an unknown pseudo-header": request(head(pseudo() + [(b":version", b"3")])),
    ":status in a request": request(head(pseudo() + [(b":status", b"200")])),
    "a pseudo-header after fields": request(
        head(without(b":path") + [(b"a", b"b"), (b":path", b"/10")])
    ),
    "a name in upper case": request(head(pseudo() + [(b"Upper", b"x")])),
    "a name with a space": request(head(pseudo() + [(b"a b", b"x")])),
    "an empty name": request(head(pseudo() + [(b"", b"x")])),
    "a value with a line feed": request(head(pseudo() + [(b"a", b"x\r\nb: y")])),
    "a value with NUL": request(head(pseudo() + [(b"a", b"x\0")])),
    "connection": request(head(pseudo() + [(b"connection", b"close")])),
    "transfer-encoding": request(head(POST + [(b"transfer-encoding", b"chunked")])),
    "te: gzip": request(head(pseudo() + [(b"te", b"gzip")])),
    "host that is not :authority": request(head(pseudo() + [(b"host", b"other")])),
    "less than content-length": request(
        head(POST + [(b"content-length", b"10")]), encode_frame(DATA, b"x")
    ),
    "more than content-length": request(
        head(POST + [(b"content-length", b"1")]), encode_frame(DATA, b"xy")
    ),
    "content-length twice": request(
        head(POST + [(b"content-length", b"1"), (b"content-length", b"2")]),
        encode_frame(DATA, b"xy"),
    ),
    "a static index beyond the table": request(encode_frame(HEADERS, b"\0\0" + integer(200, 6, 0xC0))),
    "a dynamic index without a table": request(encode_frame(HEADERS, b"\x02\0" + integer(0, 6, 0x80))),
    "a Huffman code that does not end": request(
        encode_frame(HEADERS, section(pseudo(), b"\x21a\x82\xff\xff"))
    ),
    "a string longer than its frame": request(
        encode_frame(HEADERS, section(pseudo(), b"\x21a\x7f\xff\xff\xff\x7f"))
    ),
    "a request after GOAWAY": goaway_then_request,
}

async def initials(port, count, path):
    """Writes so many first packets, each of 1,200 bytes and of a client of its own, to a file."""
    with open(path, "wb") as file:
        for _ in range(int(count)):
            client = QuicConnection(configuration=QuicConfiguration(alpn_protocols=["h3"]))
            client.connect(("127.0.0.1", port), now=0.0)
            (packet, _), *_ = client.datagrams_to_send(now=0.0)
            assert len(packet) == 1200, len(packet)
            file.write(packet)


COMMANDS = {
    "initials": initials,
    "get": get,
    "post": post,
    "many": many,
    "migrate": migrate,
    "keys": keys,
    "early": early,
    "misbehave": misbehave,
}

if __name__ == "__main__":
    asyncio.run(COMMANDS[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:]))
