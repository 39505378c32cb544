const inner = require("./inner.cjs");
module.exports = { answer: inner.half * 2, exportsIsObject: typeof exports };
