"""Does a busy queue slow down another one of the same broker? Two measurements at a time.

In a notebook, write `await main()` in place of the last line.
"""

import asyncio

from quiver_fast.api import Server, measure_async


async def main():
    with Server() as server:
        orders = {"url": server.url_of("orders"), "duration": 1, "rate": "2k"}
        alone = await measure_async(**orders)
        beside, noise = await asyncio.gather(
            measure_async(**orders),
            measure_async(server.url_of("noise"), duration=1, body_size="10k"),
        )
    print(f"alone: p99 {alone.latency(99):.2f} ms")
    print(f"beside {noise.rate:,.0f} messages/s: p99 {beside.latency(99):.2f} ms")


asyncio.run(main())
