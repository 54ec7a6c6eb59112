"""An echo over WebSocket, by the distribution's `websockets`.

websocket_echo.py server          prints the port it serves on
websocket_echo.py client ADDRESS  talks to it; fails with what was wrong
"""

import asyncio
import sys

import websockets

PATIENCE = 20


async def echo(socket):
    async for message in socket:
        if message == "leave":
            return await socket.close(4000, "asked to")
        await socket.send(message)


async def serve():
    async with websockets.serve(echo, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()


async def talk(address):
    async with websockets.connect(f"ws://{address}/chat") as socket:
        for message in ["one", "\u00e9" * 1000, b"\x00\xff", bytes(range(256)) * 1000]:
            await socket.send(message)
            heard = await asyncio.wait_for(socket.recv(), PATIENCE)
            assert heard == message, (heard[:20], message[:20])
        await asyncio.wait_for(await socket.ping(), PATIENCE)
        await socket.send("leave")
        await asyncio.wait_for(socket.wait_closed(), PATIENCE)
        assert (socket.close_code, socket.close_reason) == (4000, "asked to"), socket.close_code


if __name__ == "__main__":
    asyncio.run({"server": serve, "client": talk}[sys.argv[1]](*sys.argv[2:]))
