const path = require("node:path");
const bare = require("path");
const { EventEmitter } = require("node:events");
const { AsyncLocalStorage } = require("async_hooks");

const emitter = new EventEmitter();
let heard = 0;
emitter.on("a", () => heard++);
emitter.emit("a");
let missing;
try {
  require("node:none");
} catch (error) {
  missing = error instanceof Error;
}

module.exports = {
  joined: path.join("a", "b"),
  same: bare === path,
  callable: require("node:events") === EventEmitter,
  heard,
  store: new AsyncLocalStorage().run(1, () => 2),
  missing,
};
