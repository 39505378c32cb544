import { equal, suite, throws } from "../support/check.js";

const bytes = (...list) => new Uint8Array(list);

export default suite({
  worker: {
    "TextEncoder writes UTF-8 and replaces lone surrogates"() {
      equal(
        new TextEncoder().encode("é€𐍈\ud800"),
        bytes(
          0xc3,
          0xa9,
          0xe2,
          0x82,
          0xac,
          0xf0,
          0x90,
          0x8d,
          0x88,
          0xef,
          0xbf,
          0xbd,
        ),
      );
      const into = new Uint8Array(4);
      equal(new TextEncoder().encodeInto("a€b", into), { read: 2, written: 4 });
    },
    "TextDecoder replaces or refuses bad bytes"() {
      equal(new TextDecoder().decode(bytes(0x61, 0xff)), "a\ufffd");
      throws(
        () => new TextDecoder("utf-8", { fatal: true }).decode(bytes(0xff)),
        { name: "TypeError" },
      );
    },
    "TextDecoder drops the BOM unless told otherwise"() {
      equal(new TextDecoder().decode(bytes(0xef, 0xbb, 0xbf, 0x61)), "a");
      equal(
        new TextDecoder("utf-8", { ignoreBOM: true }).decode(
          bytes(0xef, 0xbb, 0xbf, 0x61),
        ),
        "\ufeffa",
      );
    },
    "TextDecoder keeps a split character when streaming"() {
      const decoder = new TextDecoder();
      equal(decoder.decode(bytes(0xe2, 0x82), { stream: true }), "");
      equal(decoder.decode(bytes(0xac)), "€");
    },
    "legacy encodings"() {
      equal(new TextDecoder("windows-1252").decode(bytes(0x80, 0xe9)), "€é");
      equal(new TextDecoder("utf-16le").decode(bytes(0x61, 0, 0x62, 0)), "ab");
      equal(new TextDecoder("shift_jis").decode(bytes(0x82, 0xa0)), "あ");
      equal(new TextDecoder("latin1").encoding, "windows-1252");
      throws(() => new TextDecoder("nope"), { name: "RangeError" });
    },
    async "encoder and decoder streams"() {
      const text = new Response(bytes(0xe2, 0x82, 0xac, 0x61)).body.pipeThrough(
        new TextDecoderStream(),
      );
      let all = "";
      for await (const part of text) all += part;
      equal(all, "€a");
      const encoded = ReadableStream.from(["a", "€"]).pipeThrough(
        new TextEncoderStream(),
      );
      equal(await new Response(encoded).bytes(), bytes(0x61, 0xe2, 0x82, 0xac));
    },
    "btoa and atob"() {
      equal([btoa("\x00ÿ"), atob(" AP8= ")], ["AP8=", "\x00ÿ"]);
      throws(() => btoa("€"), { name: "InvalidCharacterError" });
      throws(() => atob("a"), { name: "InvalidCharacterError" });
    },
  },
});
