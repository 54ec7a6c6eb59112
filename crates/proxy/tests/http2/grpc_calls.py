"""Calls of every kind between the reference implementation of gRPC and itself.

grpc_calls.py server [PEM]          prints the port it serves on; TLS with a certificate and its key
grpc_calls.py client ADDRESS [PEM]  makes the calls; TLS with an authority; fails with what was wrong

The messages are plain bytes, so that no code has to be generated.
"""

import queue
import sys
import threading
from concurrent import futures

import grpc

PATIENCE = 20
cancelled = threading.Semaphore(0)


def upper(request, context):
    asked = dict(context.invocation_metadata())
    left = context.time_remaining()
    context.send_initial_metadata((("x-asked", asked["x-asked"]), ("x-raw-bin", asked["x-raw-bin"])))
    context.set_trailing_metadata((("x-deadline", str(left is not None and left < 2 * PATIENCE)),))
    return request.upper()


def count(request, context):
    for number in range(int(request)):
        yield b"%d" % number


def join(requests, context):
    return b",".join(requests)


def echo(requests, context):
    yield from requests


def fail(request, context):
    context.set_trailing_metadata((("x-why", "asked for"),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not at 100 % \u00e9")


def fail_late(request, context):
    yield b"one"
    context.abort(grpc.StatusCode.DATA_LOSS, "after one")


def wait(request, context):
    gone = threading.Event()
    context.add_callback(gone.set)
    if gone.wait(PATIENCE):
        cancelled.release()
    return b""


def was_cancelled(request, context):
    """Waits until the server has heard of one more call that its client took back."""
    return b"yes" if cancelled.acquire(timeout=PATIENCE) else b"no"


def serve(pem=None):
    kinds = {
        "Upper": grpc.unary_unary_rpc_method_handler(upper),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Join": grpc.stream_unary_rpc_method_handler(join),
        "Echo": grpc.stream_stream_rpc_method_handler(echo),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "FailLate": grpc.unary_stream_rpc_method_handler(fail_late),
        "Wait": grpc.unary_unary_rpc_method_handler(wait),
        "WasCancelled": grpc.unary_unary_rpc_method_handler(was_cancelled),
    }
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Calls", kinds),))
    if pem:
        text = open(pem, "rb").read()
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(text, text)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def refused(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call went well")


def call(address, authority=None):
    if authority:
        credentials = grpc.ssl_channel_credentials(open(authority, "rb").read())
        options = (("grpc.ssl_target_name_override", "a.test"),)
        channel = grpc.secure_channel(address, credentials, options)
    else:
        channel = grpc.insecure_channel(address)
    unary(channel)
    streams(channel)
    errors(channel)
    ends(channel)
    channel.close()


def unary(channel):
    metadata = (("x-asked", "this"), ("x-raw-bin", b"\x00\xff\x80"))
    answer, made = channel.unary_unary("/test.Calls/Upper").with_call(
        b"hello", metadata=metadata, timeout=PATIENCE
    )
    assert answer == b"HELLO", answer
    initial = dict(made.initial_metadata())
    assert initial["x-asked"] == "this" and initial["x-raw-bin"] == b"\x00\xff\x80", initial
    trailing = dict(made.trailing_metadata())
    assert trailing["x-deadline"] == "True", trailing
    # Larger than any window or buffer on the way.
    large = b"a" * 3_000_000
    answer = channel.unary_unary("/test.Calls/Upper")(large, metadata=metadata, timeout=PATIENCE)
    assert answer == large.upper(), len(answer)


def streams(channel):
    numbers = channel.unary_stream("/test.Calls/Count")(b"1000", timeout=PATIENCE)
    assert list(numbers) == [b"%d" % number for number in range(1000)]
    words = [b"one", b"two", b"three"]
    joined = channel.stream_unary("/test.Calls/Join")(iter(words), timeout=PATIENCE)
    assert joined == b"one,two,three", joined
    # Each word is sent when the one before has come back: both directions are open at once.
    asked = queue.Queue()
    heard = channel.stream_stream("/test.Calls/Echo")(iter(asked.get, None), timeout=PATIENCE)
    for word in words:
        asked.put(word)
        assert next(heard) == word
    asked.put(None)
    assert list(heard) == []
    nothing = channel.stream_stream("/test.Calls/Echo")(iter([]), timeout=PATIENCE)
    assert list(nothing) == []


def errors(channel):
    error = refused(lambda: channel.unary_unary("/test.Calls/Fail")(b"", timeout=PATIENCE))
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error
    assert error.details() == "not at 100 % \u00e9", error
    trailing = dict(error.trailing_metadata())
    assert trailing["x-why"] == "asked for" and "content-length" not in trailing, error
    heard = channel.unary_stream("/test.Calls/FailLate")(b"", timeout=PATIENCE)
    assert next(heard) == b"one"
    error = refused(lambda: next(heard))
    assert (error.code(), error.details()) == (grpc.StatusCode.DATA_LOSS, "after one"), error
    error = refused(lambda: channel.unary_unary("/test.Calls/None")(b"", timeout=PATIENCE))
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error


def ends(channel):
    was_cancelled = channel.unary_unary("/test.Calls/WasCancelled")
    error = refused(lambda: channel.unary_unary("/test.Calls/Wait")(b"", timeout=0.5))
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    assert was_cancelled(b"", timeout=PATIENCE) == b"yes"
    numbers = channel.unary_stream("/test.Calls/Count")(b"100000000", timeout=PATIENCE)
    assert next(numbers) == b"0"
    numbers.cancel()
    assert refused(lambda: list(numbers)).code() == grpc.StatusCode.CANCELLED


if __name__ == "__main__":
    {"server": serve, "client": call}[sys.argv[1]](*sys.argv[2:])
