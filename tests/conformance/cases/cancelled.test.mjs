export default {
  async "a client that leaves cancels the stream"(t) {
    const controller = new AbortController();
    const response = await t.fetch("/stream", { signal: controller.signal });
    await response.body.getReader().read();
    controller.abort();
    await t.until(
      async () => (await t.json("/log")).includes("cancelled"),
      5_000,
      "cancel()",
    );
  },
  async "waitUntil work goes on after the client left"(t) {
    const controller = new AbortController();
    const waiting = t
      .fetch("/wait", { signal: controller.signal })
      .catch(() => {});
    await t.sleep(50);
    controller.abort();
    await waiting;
    await t.until(
      async () => (await t.json("/log")).includes("waited"),
      5_000,
      "the work",
    );
  },
};
