"""Sends bodies that are not wanted, one after another, and expects an answer to each.

Usage: client.py URL STATUS REQUESTS SIZE...
"""

import sys

import httpx


def main():
    url, status, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sizes = [int(size) for size in sys.argv[4:]]
    lost = []
    with httpx.Client(http2=True, verify=False, timeout=30) as client:
        for turn in range(count):
            size = sizes[turn % len(sizes)]
            try:
                answer = client.post(url, content=b"x" * size)
                got = f"{answer.http_version} {answer.status_code} {len(answer.content) > 0}"
            except httpx.HTTPError as error:
                got = repr(error)
            if got != f"HTTP/2 {status} True":
                lost.append(f"{size} bytes: {got}")
    print(f"{count - len(lost)} of {count}", *lost[:5], sep="\n")


main()
