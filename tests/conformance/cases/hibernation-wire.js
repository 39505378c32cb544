// config: {"objects": {"ROOM": "Room"}, "date": "2026-11-17"}
import { suite } from "../support/check.js";
import { Room, fallback } from "../support/hibernation.js";

export { Room };

export default suite({ fallback });
