import { equal, suite } from "../support/check.js";

export default suite({
  worker: {
    async "parts are joined"() {
      const blob = new Blob(
        [
          "a",
          new Uint8Array([98]),
          new Blob(["c"]),
          new Uint8Array([100]).buffer,
        ],
        {
          type: "Text/Plain",
        },
      );
      equal(
        [blob.size, blob.type, await blob.text()],
        [4, "text/plain", "abcd"],
      );
    },
    async "slice counts from both ends"() {
      const blob = new Blob(["hello"], { type: "a/b" });
      equal(await blob.slice(1, -1).text(), "ell");
      equal(await blob.slice(-2).text(), "lo");
      equal([blob.slice(0, 1, "x/y").type, blob.slice(0, 1).type], ["x/y", ""]);
    },
    async "stream and bytes"() {
      const blob = new Blob(["hello"]);
      equal(await new Response(blob.stream()).text(), "hello");
      equal(await blob.bytes(), new TextEncoder().encode("hello"));
      equal((await blob.arrayBuffer()).byteLength, 5);
    },
    "File carries name and time"() {
      const file = new File(["x"], "a.txt", {
        type: "text/plain",
        lastModified: 7,
      });
      equal(
        [file.name, file.lastModified, file.type, file instanceof Blob],
        ["a.txt", 7, "text/plain", true],
      );
    },
    "a bad type is dropped"() {
      equal(new Blob([], { type: "a\u00e9/b" }).type, "");
    },
  },
});
