// config: {"date": "2026-04-06"}
import { equal, suite } from "../support/check.js";
import { checks } from "../support/websocket-closing.js";

export default suite({
  worker: checks(equal, {
    "states through a close": [
      "open 1 1",
      "closed by a 2 1",
      "close at b 2 2",
      "later 2 2",
      "closed by b 2 3",
      "close at a 3 3",
      "end 3 3",
    ],
    "the answer to a close": [
      "b 4001 first true 2",
      "ok",
      "ok",
      "a 4002 answer true",
      3,
      3,
    ],
    "both ends close at once": [
      "a 4002 from b true",
      "b 4001 from a true",
      3,
      3,
    ],
    "messages behind a close that is unanswered": ["ok", "still here"],
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
