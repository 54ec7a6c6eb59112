"""An echo over WebSocket that speaks HTTP/2 (RFC 8441), by the distribution's `hypercorn`.

websocket_http2.py server          prints the port it serves on; `/no` is refused
"""

import asyncio
import logging
import socket

from hypercorn.asyncio import serve
from hypercorn.config import Config


async def echo(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    await receive()
    if scope["path"] == "/no" or scope["http_version"] != "2":
        return await send({"type": "websocket.close"})
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        if message["text"] == "leave":
            return await send({"type": "websocket.close", "code": 4000, "reason": "asked to"})
        await send({"type": "websocket.send", "text": message["text"], "bytes": message["bytes"]})


if __name__ == "__main__":
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    # Who reads the port may connect at once.
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.loglevel = "CRITICAL"
    config.errorlog = None
    asyncio.run(serve(echo, config))
