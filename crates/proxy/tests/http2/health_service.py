"""The health service of gRPC by its reference implementation.

health_service.py server [PEM]     prints the port it serves on; TLS with a certificate and its key.
Each line of its input is a service and its status from then on: `package.Service 2`, or ` 1` for
the server as a whole. What has no status is not found. Each change is acknowledged by a line.

The messages are written by hand, so that no code has to be generated.
"""

import sys
from concurrent import futures

import grpc

statuses = {}


def check(request, context):
    # Field 1 is the name, of fewer than 128 bytes.
    name = request[2:].decode()
    if name not in statuses:
        context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    return bytes([1 << 3, statuses[name]])


def server(pem=None):
    serving = grpc.server(futures.ThreadPoolExecutor(8))
    handler = grpc.unary_unary_rpc_method_handler(check)
    handlers = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})
    serving.add_generic_rpc_handlers((handlers,))
    if pem:
        text = open(pem, "rb").read()
        credentials = grpc.ssl_server_credentials([(text, text)])
        port = serving.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = serving.add_insecure_port("127.0.0.1:0")
    serving.start()
    print(port, flush=True)
    for line in sys.stdin:
        name, status = line.rsplit(" ", 1)
        statuses[name] = int(status)
        print("done", flush=True)
    serving.stop(None)


server(*sys.argv[2:])
