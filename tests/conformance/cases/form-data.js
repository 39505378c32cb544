import { equal, rejects, suite } from "../support/check.js";

export default suite({
  worker: {
    async "multipart round trip"() {
      const form = new FormData();
      form.append("a", "1");
      form.append("a", "ü\r\n2");
      form.append("f", new File(["body"], "nä.txt", { type: "text/x" }));
      const response = new Response(form);
      equal(
        /^multipart\/form-data; ?boundary=/.test(
          response.headers.get("content-type"),
        ),
        true,
      );
      const back = await response.formData();
      equal(back.getAll("a"), ["1", "ü\r\n2"]);
      const file = back.get("f");
      equal(
        [file instanceof File, file.name, file.type, await file.text()],
        [true, "nä.txt", "text/x", "body"],
      );
    },
    async "urlencoded forms are parsed"() {
      const response = new Response("a=1+2&b=%C3%BC&a=3", {
        headers: { "content-type": "application/x-www-form-urlencoded" },
      });
      equal(
        [...(await response.formData())],
        [
          ["a", "1 2"],
          ["b", "ü"],
          ["a", "3"],
        ],
      );
    },
    async "another content type is refused"() {
      await rejects(new Response("x").formData(), {
        name: "TypeError",
        message: /Unrecognized Content-Type header value/,
      });
    },
    async "a multipart body without its end is refused"() {
      const response = new Response(
        '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1',
        {
          headers: { "content-type": "multipart/form-data; boundary=b" },
        },
      );
      await rejects(response.formData(), { name: "TypeError" });
    },
    "set, has, delete and iteration"() {
      const form = new FormData();
      form.append("a", "1");
      form.append("b", "2");
      form.append("a", "3");
      form.set("a", "4");
      equal(
        [...form],
        [
          ["a", "4"],
          ["b", "2"],
        ],
      );
      form.delete("b");
      equal(
        [form.has("b"), form.get("b"), [...form.keys()]],
        [false, null, ["a"]],
      );
    },
    "a Blob with a file name becomes a File"() {
      const form = new FormData();
      form.append("f", new Blob(["x"], { type: "a/b" }), "x.bin");
      const file = form.get("f");
      equal([file.name, file.type, file.size], ["x.bin", "a/b", 1]);
    },
  },
});
