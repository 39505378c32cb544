// As much of the WebSocket framing as a test needs: short text frames.

/** A masked text frame of fewer than 126 bytes. */
export function textFrame(text) {
  const payload = Buffer.from(text);
  const mask = Buffer.from([1, 2, 3, 4]);
  const masked = payload.map((byte, i) => byte ^ mask[i % 4]);
  return Buffer.concat([
    Buffer.from([0x81, 0x80 | payload.length]),
    mask,
    masked,
  ]);
}

/** The text of an unmasked frame of fewer than 126 bytes, or null while bytes are missing. */
export function readText(bytes) {
  if (bytes.length < 2 || bytes.length < 2 + bytes[1]) return null;
  if (bytes[0] !== 0x81) throw new Error(`not a text frame: ${bytes[0]}`);
  return bytes.subarray(2, 2 + bytes[1]).toString();
}
