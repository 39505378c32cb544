export default {
  async "module state lives from request to request"(t) {
    const first = Number(await t.text("/"));
    t.equal(Number(await t.text("/")), first + 1);
  },
  async "a request that can never end is ended"(t) {
    const response = await t.fetch("/hang");
    t.equal(response.status, 500);
  },
  async "an unhandled rejection does not hurt the answer"(t) {
    t.equal(await t.text("/unhandled"), "answered");
  },
  async "an exception in a timer does not hurt the answer"(t) {
    t.equal(await t.text("/late-throw"), "answered");
  },
  async "deep recursion is a RangeError"(t) {
    t.equal(
      await t.text("/deep"),
      "RangeError: Maximum call stack size exceeded",
    );
    t.equal((await t.fetch("/")).status, 200);
  },
};
