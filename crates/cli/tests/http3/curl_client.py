"""HTTP/3 by libcurl (curl_cffi): python curl_client.py COMMAND URL [ARGUMENT], a line of result."""

import asyncio
import sys

from curl_cffi import AsyncSession, CurlHttpVersion, Session

OPTIONS = {"verify": False, "http_version": CurlHttpVersion.V3ONLY, "timeout": 60}


def get(url):
    with Session(**OPTIONS) as session:
        answers = [session.get(url + "/1000") for _ in range(3)]
        print(*(told(answer) for answer in answers), sep=", ")


def post(url, size):
    with Session(**OPTIONS) as session:
        answer = session.post(url, data=bytes(int(size)))
        print(answer.status_code, answer.text)


def many(url, count):
    async def all_at_once():
        async with AsyncSession(max_clients=int(count), **OPTIONS) as session:
            asked = (session.get(url + "/1000") for _ in range(int(count)))
            return [told(answer) for answer in await asyncio.gather(*asked)]

    print(asyncio.run(all_at_once()).count("200 1000 3"))


def told(answer):
    version = {CurlHttpVersion.V3: 3, 3: 3, 30: 3}.get(answer.http_version, answer.http_version)
    return f"{answer.status_code} {len(answer.content)} {version}"


if __name__ == "__main__":
    {"get": get, "post": post, "many": many}[sys.argv[1]](*sys.argv[2:])
