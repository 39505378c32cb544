import { equal, rejects, suite, throws } from "../support/check.js";

const through = (body, stream) =>
  new Response(new Response(body).body.pipeThrough(stream));

async function refusesCut(format) {
  const packed = await through("hello", new CompressionStream(format)).bytes();
  const cut = through(packed.slice(0, -3), new DecompressionStream(format));
  await rejects(cut.text(), { name: "TypeError" });
}

export default suite({
  worker: {
    async "every format makes a round trip"() {
      const text = "compress me ".repeat(1_000);
      for (const format of ["gzip", "deflate", "deflate-raw"]) {
        const packed = await through(
          text,
          new CompressionStream(format),
        ).bytes();
        equal(packed.length < 500, true, format);
        equal(
          (await through(packed, new DecompressionStream(format)).text()) ===
            text,
          true,
          format,
        );
      }
    },
    async "gzip has its magic bytes"() {
      const packed = await through("x", new CompressionStream("gzip")).bytes();
      equal([...packed.slice(0, 3)], [0x1f, 0x8b, 8]);
    },
    async "damaged data is a TypeError"() {
      const packed = await through(
        "hello",
        new CompressionStream("gzip"),
      ).bytes();
      packed[3] ^= 0xff;
      await rejects(through(packed, new DecompressionStream("gzip")).text(), {
        name: "TypeError",
      });
    },
    async "truncated gzip data is a TypeError"() {
      await refusesCut("gzip");
    },
    async "truncated deflate data is a TypeError"() {
      await refusesCut("deflate");
    },
    async "truncated deflate-raw data is a TypeError"() {
      await refusesCut("deflate-raw");
    },
    async "trailing data is a TypeError"() {
      const packed = await through(
        "hello",
        new CompressionStream("gzip"),
      ).bytes();
      const longer = new Uint8Array([...packed, 1, 2]);
      await rejects(through(longer, new DecompressionStream("gzip")).text(), {
        name: "TypeError",
      });
    },
    "an unknown format is a TypeError"() {
      throws(() => new CompressionStream("zip"), { name: "TypeError" });
    },
  },
});
