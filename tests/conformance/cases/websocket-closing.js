// config: {"date": "2026-11-17"}
import { equal, suite } from "../support/check.js";
import { checks } from "../support/websocket-closing.js";

export default suite({
  worker: checks(equal, {
    "states through a close": [
      "open 1 1",
      "closed by a 2 1",
      "close at b 2 3",
      "close at a 3 3",
      "later 3 3",
      "closed by b 3 3",
      "end 3 3",
    ],
    "the answer to a close": [
      "b 4001 first true 3",
      "TypeError: Can't call WebSocket send() after close().",
      "ok",
      "a 4001 first true",
      3,
      3,
    ],
    "both ends close at once": [
      "a 4002 from b true",
      "b 4001 from a true",
      3,
      3,
    ],
    "messages behind a close that is unanswered": [
      "TypeError: Can't call WebSocket send() after close().",
      4001,
    ],
    "an end that allows half open": [
      "b 4001 2",
      "ok",
      "still here",
      "2 2",
      "ok",
      "a 4002",
      "3 3",
    ],
    "long reasons": [
      "123: 123",
      "124: SyntaxError: WebSocket close reason must not be longer than 123 bytes when UTF-8 encoded.",
      "200: SyntaxError: WebSocket close reason must not be longer than 123 bytes when UTF-8 encoded.",
    ],
    "binary messages": ["blob", "Blob"],
  }),
});
