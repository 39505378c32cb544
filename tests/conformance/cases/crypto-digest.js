import { equal, rejects, suite, throws } from "../support/check.js";

const utf8 = new TextEncoder();
const hex = (buffer) =>
  [...new Uint8Array(buffer)]
    .map((b) => b.toString(16).padStart(2, "0"))
    .join("");

export default suite({
  worker: {
    async "digests of known texts"() {
      const of = async (name) =>
        hex(await crypto.subtle.digest(name, utf8.encode("abc")));
      equal(await of("SHA-1"), "a9993e364706816aba3e25717850c26c9cd0d89d");
      equal(
        await of("SHA-256"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
      );
      equal(
        await of({ name: "sha-256" }),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
      );
      equal((await of("SHA-384")).slice(0, 16), "cb00753f45a35e8b");
      equal((await of("SHA-512")).slice(0, 16), "ddaf35a193617aba");
    },
    async MD5() {
      equal(
        hex(await crypto.subtle.digest("MD5", utf8.encode("abc"))),
        "900150983cd24fb0d6963f7d28e17f72",
      );
    },
    async "an unknown digest is refused"() {
      await rejects(crypto.subtle.digest("SHA-0", utf8.encode("")), {
        name: "NotSupportedError",
      });
    },
    async "DigestStream digests what is written"() {
      const stream = new crypto.DigestStream("SHA-256");
      const writer = stream.getWriter();
      await writer.write(utf8.encode("a"));
      await writer.write("bc");
      await writer.close();
      equal(
        hex(await stream.digest),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
      );
    },
    "timingSafeEqual compares equal lengths only"() {
      const { timingSafeEqual } = crypto.subtle;
      equal(
        crypto.subtle.timingSafeEqual(utf8.encode("a"), utf8.encode("a")),
        true,
      );
      equal(
        crypto.subtle.timingSafeEqual(utf8.encode("a"), utf8.encode("b")),
        false,
      );
      throws(
        () =>
          crypto.subtle.timingSafeEqual(utf8.encode("a"), utf8.encode("bc")),
        {
          name: "TypeError",
          message: "Input buffers must have the same byte length.",
        },
      );
      equal(typeof timingSafeEqual, "function");
    },
    "randomUUID is a version 4 UUID"() {
      equal(
        /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(
          crypto.randomUUID(),
        ),
        true,
      );
    },
    "getRandomValues fills integer arrays up to 64 KiB"() {
      const array = new Uint8Array(65_536);
      equal(crypto.getRandomValues(array) === array, true);
      equal(
        array.some((byte) => byte !== 0),
        true,
      );
      throws(() => crypto.getRandomValues(new Uint8Array(65_537)), {
        name: "QuotaExceededError",
      });
      throws(() => crypto.getRandomValues(new Float32Array(1)), {
        name: "TypeMismatchError",
      });
    },
  },
});
