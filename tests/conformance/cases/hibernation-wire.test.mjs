import { checks } from "../support/hibernation-wire.mjs";

export default checks({
  // Here the runtime answers what the handler left unanswered, as the platform documents it.
  "the client closes and the handler does not answer": {
    workerd: [
      "close 4001 bye true in 2",
      "listed true",
      "attachment null",
      "tags ok",
      "send ok",
      ["from webSocketClose"],
      0,
    ],
    celld: [
      "close 4001 bye true in 2",
      "listed true",
      "attachment null",
      "tags ok",
      "send ok",
      ["from webSocketClose", "close 4001 bye"],
      0,
    ],
  },
  "the client closes and the handler answers": [
    "close 4001 bye true in 2",
    "listed true",
    "attachment null",
    "tags ok",
    "send ok",
    "answer ok",
    "then 3",
    ["from webSocketClose", "close 4002 answer"],
    true,
    0,
  ],
  // Here the runtime answers what the handler left unanswered, as the platform documents it.
  "the client closes without a code": {
    workerd: [
      "close 1005  true in 2",
      "listed true",
      "attachment null",
      "tags ok",
      "send ok",
      ["from webSocketClose"],
    ],
    celld: [
      "close 1005  true in 2",
      "listed true",
      "attachment null",
      "tags ok",
      "send ok",
      ["from webSocketClose", "close none "],
    ],
  },
  "the object closes and the client answers": [
    [1, [2]],
    "close 4003 mine true in 3",
    "listed true",
    "attachment null",
    "tags ok",
    "send TypeError: Can't call WebSocket send() after close().",
    ["close 4003 out"],
    true,
    0,
  ],
  "the object closes and the client talks on": [
    "message text behind the close",
    ["close 4003 out"],
  ],
  "the object closes and the client goes away": [
    "close 1006 WebSocket disconnected without sending Close frame. false in 3",
    "listed true",
    "attachment null",
    "tags ok",
    "send TypeError: Can't call WebSocket send() after close().",
    0,
  ],
  "the client goes away": [
    "close 1006 WebSocket disconnected without sending Close frame. false in 2",
    "listed true",
    'attachment "a"',
    "tags ok",
    "send ok",
    0,
  ],
  "an object that is aborted": [[], [], 0],
});
