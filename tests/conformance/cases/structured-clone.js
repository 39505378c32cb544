import { equal, suite, throws } from "../support/check.js";

export default suite({
  worker: {
    "values keep their types"() {
      const value = {
        date: new Date(5),
        map: new Map([[1, new Set(["x"])]]),
        bytes: new Uint8Array([1, 2]),
        regexp: /a+/gi,
        big: 10n ** 20n,
        none: undefined,
        nan: NaN,
        zero: -0,
        list: [1, , 3],
      };
      equal(structuredClone(value), value);
    },
    "cycles and shared references survive"() {
      const a = { shared: {} };
      a.self = a;
      a.other = a.shared;
      const b = structuredClone(a);
      equal([b.self === b, b.other === b.shared, b === a], [true, true, false]);
    },
    "errors keep name, message and cause"() {
      const copy = structuredClone(new RangeError("far", { cause: "c" }));
      equal(
        [copy instanceof RangeError, copy.message, copy.cause],
        [true, "far", "c"],
      );
    },
    "functions and symbols are refused"() {
      throws(() => structuredClone(() => 1), { name: "DataCloneError" });
      throws(() => structuredClone({ s: Symbol("x") }), {
        name: "DataCloneError",
      });
    },
    "class instances become plain objects"() {
      class Point {
        x = 1;
        get y() {
          return 2;
        }
      }
      const copy = structuredClone(new Point());
      equal([copy.constructor.name, copy], ["Object", { x: 1 }]);
    },
    "transfer detaches the buffer"() {
      const buffer = new ArrayBuffer(4);
      const copy = structuredClone(buffer, { transfer: [buffer] });
      equal(
        [copy.byteLength, buffer.byteLength, buffer.detached],
        [4, 0, true],
      );
    },
  },
});
