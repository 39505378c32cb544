// config: {"checkMs": 60000}
import { equal, rejects, suite } from "../support/check.js";

const utf8 = new TextEncoder();
const hex = (buffer) =>
  [...new Uint8Array(buffer)]
    .map((b) => b.toString(16).padStart(2, "0"))
    .join("");
const { subtle } = crypto;

export default suite({
  worker: {
    async "HMAC signs and verifies"() {
      const key = await subtle.importKey(
        "raw",
        utf8.encode("key"),
        { name: "HMAC", hash: "SHA-256" },
        false,
        ["sign", "verify"],
      );
      const data = utf8.encode("The quick brown fox jumps over the lazy dog");
      const mac = await subtle.sign("HMAC", key, data);
      equal(
        hex(mac),
        "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
      );
      equal(await subtle.verify("HMAC", key, mac, data), true);
      equal(await subtle.verify("HMAC", key, mac, utf8.encode("x")), false);
    },
    async "AES-GCM round trip and tampering"() {
      const key = await subtle.generateKey(
        { name: "AES-GCM", length: 256 },
        true,
        ["encrypt", "decrypt"],
      );
      const iv = new Uint8Array(12);
      const additionalData = utf8.encode("head");
      const sealed = await subtle.encrypt(
        { name: "AES-GCM", iv, additionalData },
        key,
        utf8.encode("secret"),
      );
      equal(sealed.byteLength, 6 + 16);
      const open = await subtle.decrypt(
        { name: "AES-GCM", iv, additionalData },
        key,
        sealed,
      );
      equal(new TextDecoder().decode(open), "secret");
      new Uint8Array(sealed)[0] ^= 1;
      await rejects(
        subtle.decrypt({ name: "AES-GCM", iv, additionalData }, key, sealed),
        { name: "OperationError" },
      );
    },
    async "AES-GCM of a known vector"() {
      const key = await subtle.importKey(
        "raw",
        new Uint8Array(16),
        "AES-GCM",
        false,
        ["encrypt"],
      );
      const sealed = await subtle.encrypt(
        { name: "AES-GCM", iv: new Uint8Array(12) },
        key,
        new Uint8Array(16),
      );
      equal(
        hex(sealed),
        "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf",
      );
    },
    async "AES-CBC and AES-CTR round trips"() {
      for (const [name, extra] of [
        ["AES-CBC", { iv: new Uint8Array(16) }],
        ["AES-CTR", { counter: new Uint8Array(16), length: 64 }],
      ]) {
        const key = await subtle.generateKey({ name, length: 128 }, false, [
          "encrypt",
          "decrypt",
        ]);
        const sealed = await subtle.encrypt(
          { name, ...extra },
          key,
          utf8.encode("text"),
        );
        equal(
          new TextDecoder().decode(
            await subtle.decrypt({ name, ...extra }, key, sealed),
          ),
          "text",
          name,
        );
      }
    },
    async "ECDSA signs and verifies; keys travel as JWK"() {
      const params = { name: "ECDSA", namedCurve: "P-256" };
      const pair = await subtle.generateKey(params, true, ["sign", "verify"]);
      const jwk = await subtle.exportKey("jwk", pair.publicKey);
      equal(
        [jwk.kty, jwk.crv, jwk.key_ops, jwk.ext],
        ["EC", "P-256", ["verify"], true],
      );
      const key = await subtle.importKey("jwk", jwk, params, true, ["verify"]);
      const how = { name: "ECDSA", hash: "SHA-256" };
      const signature = await subtle.sign(
        how,
        pair.privateKey,
        utf8.encode("x"),
      );
      equal(signature.byteLength, 64);
      equal(await subtle.verify(how, key, signature, utf8.encode("x")), true);
      equal(await subtle.verify(how, key, signature, utf8.encode("y")), false);
    },
    async "Ed25519 signs and verifies"() {
      const pair = await subtle.generateKey("Ed25519", true, [
        "sign",
        "verify",
      ]);
      const signature = await subtle.sign(
        "Ed25519",
        pair.privateKey,
        utf8.encode("x"),
      );
      equal(
        [
          signature.byteLength,
          await subtle.verify(
            "Ed25519",
            pair.publicKey,
            signature,
            utf8.encode("x"),
          ),
        ],
        [64, true],
      );
      equal((await subtle.exportKey("raw", pair.publicKey)).byteLength, 32);
    },
    async "RSA keys sign and verify; PKCS #8 and SPKI work"() {
      const params = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
      const pair = await subtle.generateKey(
        {
          ...params,
          modulusLength: 1024,
          publicExponent: new Uint8Array([1, 0, 1]),
        },
        true,
        ["sign", "verify"],
      );
      const pkcs8 = await subtle.exportKey("pkcs8", pair.privateKey);
      const spki = await subtle.exportKey("spki", pair.publicKey);
      const signKey = await subtle.importKey("pkcs8", pkcs8, params, false, [
        "sign",
      ]);
      const verifyKey = await subtle.importKey("spki", spki, params, false, [
        "verify",
      ]);
      const signature = await subtle.sign(params, signKey, utf8.encode("x"));
      equal(
        await subtle.verify(params, verifyKey, signature, utf8.encode("x")),
        true,
      );
    },
    async "PBKDF2 and HKDF give known bits"() {
      const base = await subtle.importKey(
        "raw",
        utf8.encode("password"),
        "PBKDF2",
        false,
        ["deriveBits", "deriveKey"],
      );
      const bits = await subtle.deriveBits(
        {
          name: "PBKDF2",
          hash: "SHA-256",
          salt: utf8.encode("salt"),
          iterations: 1,
        },
        base,
        256,
      );
      equal(
        hex(bits),
        "120fb6cffcf8b32c43e7225256c4f837a86548c92ccc35480805987cb70be17b",
      );
      const hk = await subtle.importKey(
        "raw",
        new Uint8Array(22).fill(0x0b),
        "HKDF",
        false,
        ["deriveBits"],
      );
      const out = await subtle.deriveBits(
        {
          name: "HKDF",
          hash: "SHA-256",
          salt: new Uint8Array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
          info: new Uint8Array([
            0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9,
          ]),
        },
        hk,
        336,
      );
      equal(hex(out).slice(0, 32), "3cb25f25faacd57a90434f64d0362f2a");
    },
    async "ECDH agrees on a secret"() {
      const params = { name: "ECDH", namedCurve: "P-256" };
      const a = await subtle.generateKey(params, false, ["deriveBits"]);
      const b = await subtle.generateKey(params, false, ["deriveBits"]);
      const one = await subtle.deriveBits(
        { name: "ECDH", public: b.publicKey },
        a.privateKey,
        256,
      );
      const two = await subtle.deriveBits(
        { name: "ECDH", public: a.publicKey },
        b.privateKey,
        256,
      );
      equal(hex(one), hex(two));
    },
    async "a key is used only as allowed"() {
      const key = await subtle.generateKey(
        { name: "AES-GCM", length: 128 },
        false,
        ["decrypt"],
      );
      await rejects(
        subtle.encrypt(
          { name: "AES-GCM", iv: new Uint8Array(12) },
          key,
          utf8.encode("x"),
        ),
        { name: "InvalidAccessError" },
      );
      await rejects(subtle.exportKey("raw", key), {
        name: "InvalidAccessError",
      });
      equal(
        [key.extractable, key.type, key.usages, key.algorithm.name],
        [false, "secret", ["decrypt"], "AES-GCM"],
      );
    },
    async "AES-KW wraps keys"() {
      const wrapping = await subtle.generateKey(
        { name: "AES-KW", length: 128 },
        false,
        ["wrapKey", "unwrapKey"],
      );
      const key = await subtle.generateKey(
        { name: "AES-GCM", length: 128 },
        true,
        ["encrypt"],
      );
      const wrapped = await subtle.wrapKey("raw", key, wrapping, "AES-KW");
      equal(wrapped.byteLength, 24);
      const back = await subtle.unwrapKey(
        "raw",
        wrapped,
        wrapping,
        "AES-KW",
        "AES-GCM",
        true,
        ["encrypt"],
      );
      equal(
        hex(await subtle.exportKey("raw", back)),
        hex(await subtle.exportKey("raw", key)),
      );
    },
  },
});
