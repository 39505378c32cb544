// config: {"objects": {"ROOM": "Room"}, "date": "2026-11-17"}
import { equal, suite } from "../support/check.js";
import { Room, checks } from "../support/hibernation.js";

export { Room };

export default suite({
  worker: checks(equal, {
    "the client closes": [
      "close 4001 bye true in 2",
      "listed true",
      'attachment "a"',
      "tags ok",
      "send ok",
      "from webSocketClose",
      0,
    ],
    "the client closes without a code": [
      "close 1005  true in 2",
      "listed true",
      "attachment null",
      "tags ok",
      "send ok",
      "from webSocketClose",
      0,
    ],
    "the handler answers the close": [
      "close 4001 bye true in 2",
      "listed true",
      "attachment null",
      "tags ok",
      "send ok",
      "answer ok",
      "then 3",
      "from webSocketClose",
      "close 4002 answer true",
      0,
    ],
    "the object closes and the client leaves it unanswered": [
      [1, [2]],
      ["TypeError: Can't call WebSocket send() after close()."],
      ["message text from the client"],
      [
        "close 4009 late true in 3",
        "listed true",
        "attachment null",
        "tags ok",
        "send TypeError: Can't call WebSocket send() after close().",
      ],
      "close 4003 out true",
      0,
    ],
    "a handler that throws": [
      "message text after",
      "message text other",
      ["got after"],
      ["got other"],
      1,
      2,
    ],
    "an object that is aborted": [
      "close 1006 WebSocket disconnected without sending Close frame. false",
    ],
  }),
});
