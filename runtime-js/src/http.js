// Request and Response as Workers know them, on top of the standard classes.
// @ts-check

import { bodyFromHost, bodyFromValue, bodyToHost, bodyToValue, wholeToStream } from "./bodies.js";
import {
  headers as headersApi,
  request as requestApi,
  response as responseApi,
  url as urlApi,
} from "./web.js";
import { WebSocket, socketFromHost, socketToHost } from "./websocket.js";

const { Request: BaseRequest, fromInnerRequest, newInnerRequest, toInnerRequest } = requestApi;
const {
  Response: BaseResponse,
  fromInnerResponse,
  newInnerResponse,
  toInnerResponse,
  getInnerResponse,
} = responseApi;
const { Headers, headersFromHeaderList } = headersApi;
const { URL } = urlApi;

/** @param {string[]} flat names and values in turn */
function toPairs(flat) {
  const pairs = [];
  for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i], flat[i + 1]]);
  return pairs;
}

/** @param {[string, string][]} pairs */
function toFlat(pairs) {
  const flat = [];
  for (const pair of pairs) flat.push(pair[0], pair[1]);
  return flat;
}

/** The standard classes' texts, and what Workers scripts find in their place. */
const WORDS = /** @type {[RegExp, string][]} */ ([
  [/^Invalid URL: '(.*)'.*$/s, "Invalid URL: $1"],
  [
    /^Request with GET\/HEAD method cannot have body$/,
    "Request with a GET or HEAD method cannot have a body.",
  ],
  [
    /^The status provided .*$/,
    "Responses may only be constructed with status codes in the range 200 to 599, inclusive.",
  ],
  [
    /^Response with null body status cannot have body$/,
    "Response with null body status (101, 204, 205, or 304) cannot have a body.",
  ],
  [
    /^Body already consumed\.?$/,
    "Body has already been used. It can only be used once. Use tee() first if you need to read it twice.",
  ],
  [
    /^Body is unusable$/,
    "Body has already been used. It can only be used once. Use tee() first if you need to read it twice.",
  ],
  [
    /^Input request's body is unusable$/,
    "Body has already been used. It can only be used once. Use tee() first if you need to read it twice.",
  ],
  [
    /^Body can not be decoded as form data$/,
    "Unrecognized Content-Type header value. FormData can only parse the following MIME types: multipart/form-data, application/x-www-form-urlencoded.",
  ],
  [/^Cannot change headers: headers are immutable$/, "Can't modify immutable headers."],
]);

/** @param {unknown} error */
function reword(error) {
  if (error instanceof TypeError || error instanceof RangeError) {
    for (const [pattern, words] of WORDS) {
      if (pattern.test(error.message)) {
        error.message = error.message.replace(pattern, words);
        break;
      }
    }
  }
  return error;
}

/**
 * @template T
 * @param {() => T} work
 * @returns {T}
 */
function inWorkersWords(work) {
  try {
    return work();
  } catch (error) {
    throw reword(error);
  }
}

// The same for methods of the standard classes: those that throw, and those that reject.
for (const name of ["append", "delete", "set"]) {
  const method = Headers.prototype[name];
  Object.defineProperty(Headers.prototype, name, {
    value: {
      [name](/** @type {any[]} */ ...args) {
        return inWorkersWords(() => method.apply(this, args));
      },
    }[name],
    writable: true,
    enumerable: true,
    configurable: true,
  });
}
for (const prototype of [BaseRequest.prototype, BaseResponse.prototype]) {
  for (const name of ["arrayBuffer", "blob", "bytes", "formData", "json", "text"]) {
    const method = prototype[name];
    Object.defineProperty(prototype, name, {
      value: {
        [name]() {
          return method.call(this).catch((/** @type {unknown} */ error) => {
            throw reword(error);
          });
        },
      }[name],
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
}

const REDIRECT_MODES = new Set(["follow", "manual"]);
const CACHE_MODES = new Set(["no-store", "no-cache"]);

/** @param {any} init */
function checkRequestInit(init) {
  if (init === undefined || init === null || typeof init !== "object") return;
  const { redirect, cache } = init;
  if (redirect !== undefined && !REDIRECT_MODES.has(redirect)) {
    throw new TypeError(
      `Invalid redirect value, must be one of "follow" or "manual" ("error" won't be implemented since it does not make sense at the edge; use "manual" and check the response status code).`,
    );
  }
  if (cache !== undefined && !CACHE_MODES.has(cache)) {
    throw new TypeError(`Unsupported cache mode: ${cache}`);
  }
}

/**
 * The global `Request`. It shares its prototype with the standard class, so that instances made
 * either way are the same to scripts.
 * @param {any} input
 * @param {any} init
 */
function WorkersRequest(input, init) {
  if (new.target === undefined)
    throw new TypeError(
      "Failed to construct 'Request': Please use the 'new' operator, this object constructor cannot be called as a function.",
    );
  checkRequestInit(init);
  // A Request may stand in for the init dictionary; `cache` and the like would not survive there.
  let standard = init;
  if (init !== null && typeof init === "object") {
    standard =
      init instanceof BaseRequest
        ? requestAsInit(init)
        : init.cache === undefined
          ? init
          : { ...init, cache: "no-store" };
  }
  const request = inWorkersWords(() =>
    Reflect.construct(
      BaseRequest,
      [input, standard ?? undefined],
      new.target === WorkersRequest ? BaseRequest : new.target,
    ),
  );
  upperMethod(request);
  const inner = toInnerRequest(request);
  if (input instanceof BaseRequest) {
    const source = toInnerRequest(input);
    inner.cf = source.cf;
    inner.hasSignal = source.hasSignal;
    inner.cacheRequested = source.cacheRequested;
  }
  if (init !== null && typeof init === "object") {
    if (init instanceof BaseRequest) inner.cf = toInnerRequest(init).cf ?? inner.cf;
    else if (init.cf !== undefined) inner.cf = init.cf;
    if (init.signal) inner.hasSignal = true;
    if (init.cache !== undefined && !(init instanceof BaseRequest)) inner.cacheRequested = init.cache;
  }
  return request;
}

/** @param {any} request */
function requestAsInit(request) {
  return {
    method: request.method,
    headers: request.headers,
    body: request.body,
    redirect: request.redirect,
    signal: request.signal,
  };
}

/** @type {any} */
export const Request = WorkersRequest;
Request.prototype = BaseRequest.prototype;
Object.defineProperty(Request, "name", { value: "Request" });
Object.defineProperty(Request, "length", { value: 1 });
Object.defineProperty(BaseRequest.prototype, "constructor", {
  value: Request,
  writable: true,
  configurable: true,
  enumerable: false,
});

/** Methods are upper case, whatever the standard says of unusual ones. @param {any} request */
function upperMethod(request) {
  const inner = toInnerRequest(request);
  const upper = inner.method.toUpperCase();
  if (upper !== inner.method) inner.method = upper;
}

const requestClone = BaseRequest.prototype.clone;
Object.defineProperties(BaseRequest.prototype, {
  cf: {
    get() {
      const inner = toInnerRequest(this);
      // Parsed on first use: most handlers never look.
      if (typeof inner.cf === "string") inner.cf = JSON.parse(inner.cf);
      return inner.cf;
    },
    enumerable: true,
    configurable: true,
  },
  fetcher: { get: () => null, enumerable: true, configurable: true },
  cache: {
    get() {
      return toInnerRequest(this).cacheRequested;
    },
    enumerable: true,
    configurable: true,
  },
  clone: {
    value: function clone() {
      const copy = requestClone.call(this);
      const inner = toInnerRequest(copy);
      inner.cf = toInnerRequest(this).cf;
      inner.cacheRequested = toInnerRequest(this).cacheRequested;
      return copy;
    },
    writable: true,
    enumerable: true,
    configurable: true,
  },
});
// Members of the standard that Workers do not have.
for (const name of [
  "credentials",
  "mode",
  "referrer",
  "referrerPolicy",
  "destination",
  "isHistoryNavigation",
  "duplex",
  "priority",
]) {
  Reflect.deleteProperty(BaseRequest.prototype, name);
}

/**
 * The global `Response`; see `Request` about its prototype.
 * @param {any} body
 * @param {any} init
 */
function WorkersResponse(body, init) {
  if (new.target === undefined)
    throw new TypeError(
      "Failed to construct 'Response': Please use the 'new' operator, this object constructor cannot be called as a function.",
    );
  /** @type {any} */
  let webSocket = null;
  let standard = init;
  if (init !== null && typeof init === "object") {
    webSocket = init.webSocket ?? null;
    if (init instanceof BaseResponse)
      standard = { status: init.status, statusText: init.statusText, headers: init.headers };
    const status = standard.status;
    if (webSocket !== null) {
      if (!(webSocket instanceof WebSocket))
        throw new TypeError(
          "Incorrect type for the 'webSocket' field on 'InitializerDict': the provided value is not of type 'WebSocket'.",
        );
      if (Number(status ?? 200) !== 101)
        throw new RangeError("Responses with a WebSocket must have status code 101.");
      if (body !== null && body !== undefined)
        throw new TypeError("Response with null body status (101, 204, 205, or 304) cannot have a body.");
    } else if (status !== undefined && Number(status) === 101) {
      throw new RangeError(
        "Responses may only be constructed with status codes in the range 200 to 599, inclusive.",
      );
    }
    if (init.encodeBody !== undefined && init.encodeBody !== "manual" && init.encodeBody !== "automatic") {
      throw new TypeError(`encodeBody: unexpected value: ${init.encodeBody}`);
    }
  }
  const response = inWorkersWords(() =>
    Reflect.construct(
      BaseResponse,
      [body, standard],
      new.target === WorkersResponse ? BaseResponse : new.target,
    ),
  );
  const inner = getInnerResponse(response);
  if (webSocket !== null) inner.webSocket = webSocket;
  if (init !== null && typeof init === "object") {
    if (init.cf !== undefined) inner.cf = init.cf;
    if (init.encodeBody === "manual") inner.encodeManually = true;
  }
  return response;
}

/** @type {any} */
export const Response = WorkersResponse;
Response.prototype = BaseResponse.prototype;
Object.defineProperty(Response, "name", { value: "Response" });
Object.defineProperty(Response, "length", { value: 0 });
Object.defineProperty(BaseResponse.prototype, "constructor", {
  value: Response,
  writable: true,
  configurable: true,
  enumerable: false,
});
for (const name of ["json", "error"]) {
  Object.defineProperty(Response, name, {
    value: BaseResponse[name],
    writable: true,
    enumerable: true,
    configurable: true,
  });
}
Object.defineProperty(Response, "redirect", {
  value: function redirect(/** @type {any} */ location, status = 302) {
    try {
      new URL(String(location));
    } catch {
      throw new TypeError(`Unable to parse URL: ${location}`);
    }
    if (![301, 302, 303, 307, 308].includes(Number(status)))
      throw new RangeError(`${status} is not a redirect status code.`);
    return BaseResponse.redirect(location, status);
  },
  writable: true,
  enumerable: true,
  configurable: true,
});

// A body that is here as a whole is a byte stream to scripts, like one that arrives in pieces.
for (const [prototype, innerOf] of /** @type {[any, (value: any) => any][]} */ ([
  [BaseRequest.prototype, toInnerRequest],
  [BaseResponse.prototype, toInnerResponse],
])) {
  const { get } = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(prototype, "body"));
  Object.defineProperty(prototype, "body", {
    get() {
      const body = innerOf(this)?.body ?? null;
      if (body !== null) wholeToStream(body);
      return get?.call(this);
    },
    enumerable: true,
    configurable: true,
  });
}

const responseClone = BaseResponse.prototype.clone;
Object.defineProperties(BaseResponse.prototype, {
  webSocket: {
    get() {
      return getInnerResponse(this).webSocket ?? null;
    },
    enumerable: true,
    configurable: true,
  },
  cf: {
    get() {
      return getInnerResponse(this).cf;
    },
    enumerable: true,
    configurable: true,
  },
  clone: {
    value: function clone() {
      if (getInnerResponse(this).webSocket)
        throw new TypeError("Cannot clone a response to a WebSocket handshake.");
      const copy = responseClone.call(this);
      const inner = getInnerResponse(copy);
      inner.cf = getInnerResponse(this).cf;
      inner.encodeManually = getInnerResponse(this).encodeManually;
      return copy;
    },
    writable: true,
    enumerable: true,
    configurable: true,
  },
});

// Workers-only reading of every value of a header.
Object.defineProperty(Headers.prototype, "getAll", {
  value: function getAll(/** @type {string} */ name) {
    if (String(name).toLowerCase() !== "set-cookie") {
      throw new TypeError(`getAll() can only be used with the header name "Set-Cookie".`);
    }
    return this.getSetCookie();
  },
  writable: true,
  enumerable: true,
  configurable: true,
});
export { Headers, headersFromHeaderList };

/**
 * A request as the host describes it.
 * @typedef {object} WireRequest
 * @property {string} method
 * @property {string} url
 * @property {string[]} headers
 * @property {Uint8Array | null} bytes
 * @property {number} rid
 * @property {number} length
 * @property {string | null} cf
 */

/** @param {WireRequest} wire */
export function requestFromHost(wire) {
  const inner = newInnerRequest(
    wire.method,
    wire.url,
    () => toPairs(wire.headers),
    bodyFromHost(wire.bytes, wire.rid, wire.length),
    false,
  );
  // An incoming request is handed on as it came: redirects are the caller's business.
  inner.redirectMode = "manual";
  inner.cf = wire.cf === null ? undefined : wire.cf;
  return fromInnerRequest(inner, "immutable");
}

/**
 * A request in the form that the host's call operations take.
 * @param {any} request
 */
export function requestToHost(request) {
  const inner = toInnerRequest(request);
  // `request.headers` may hold changes that the lazily built list does not.
  const headers = toFlat(headersApi.headerListFromHeaders(request.headers));
  const body = bodyToHost(inner.body);
  return {
    method: inner.method,
    url: withoutFragment(inner.currentUrl()),
    headers,
    body,
    cf: inner.cf === undefined ? null : typeof inner.cf === "string" ? inner.cf : JSON.stringify(inner.cf),
    websocket: (request.headers.get("upgrade") ?? "").toLowerCase() === "websocket",
    manual: inner.redirectMode === "manual",
    // The cached signal only: reading `signal` would create one for every request.
    signal: request.signal,
  };
}

/** @param {string} address */
function withoutFragment(address) {
  const hash = address.indexOf("#");
  return hash < 0 ? address : address.slice(0, hash);
}

/**
 * An answer as the host describes it: status, headers, whole body, body channel, declared length,
 * socket, final URL.
 * @typedef {[number, string[], Uint8Array | null, number, number, number, string | null, string | null]} WireResponse
 */

/**
 * @param {WireResponse} wire
 * @param {string} asked the address that was asked for
 */
export function responseFromHost(wire, asked) {
  const [status, headers, bytes, rid, length, socket, finalUrl, statusText] = wire;
  const inner = newInnerResponse(status, statusText ?? reasonPhrase(status));
  inner.headerList = toPairs(headers);
  inner.urlList = finalUrl === null || finalUrl === asked ? [asked] : [asked, finalUrl];
  inner.body = bodyFromHost(bytes, rid, length);
  if (socket !== 0) inner.webSocket = socketFromHost(socket);
  return fromInnerResponse(inner, "immutable");
}

/**
 * Notes that an answer came after redirects.
 * @param {any} response
 * @param {string} asked the first address
 */
export function markRedirected(response, asked) {
  const inner = getInnerResponse(response);
  inner.urlList = [asked, ...inner.urlList];
}

/**
 * Takes an answer apart for the host.
 * @param {any} response
 */
export function responseToHost(response) {
  if (!(response instanceof BaseResponse)) {
    throw new TypeError("Incorrect type for Promise: the Promise did not resolve to 'Response'.");
  }
  const inner = toInnerResponse(response);
  if (inner.type === "error")
    throw new TypeError("Return value from serve handler must not be an error response.");
  const socket = inner.webSocket ? socketToHost(inner.webSocket) : 0;
  return {
    status: inner.status,
    statusText: inner.statusMessage,
    headers: toFlat(inner.headerList),
    body: bodyToHost(inner.body),
    socket,
    encoded: inner.encodeManually === true,
  };
}

/** @param {any} request */
export function requestToValue(request) {
  const inner = toInnerRequest(request);
  return {
    method: inner.method,
    url: inner.currentUrl(),
    headers: headersApi.headerListFromHeaders(request.headers),
    redirect: inner.redirectMode,
    cf: request.cf,
    hasSignal: inner.hasSignal === true,
    body: bodyToValue(inner.body),
  };
}

/** @param {any} form */
export function requestFromValue({ method, url, headers, redirect, cf, whole, stream, length }) {
  const list = headersApi.headerListFromHeaders(new Headers(headers));
  const { method: checked, url: address } = new Request(String(url), { method: String(method) });
  const inner = newInnerRequest(checked, address, () => list, bodyFromValue(whole, stream, length), false);
  inner.redirectMode = redirect === "follow" ? "follow" : "manual";
  inner.cf = cf;
  return fromInnerRequest(inner, "request");
}

/** @param {any} response */
export function responseToValue(response) {
  const inner = toInnerResponse(response);
  return {
    status: inner.status,
    statusText: inner.statusMessage,
    headers: inner.headerList,
    cf: inner.cf,
    encoded: inner.encodeManually === true,
    webSocket: inner.webSocket ?? null,
    body: inner.webSocket ? null : bodyToValue(inner.body),
  };
}

/** @param {any} form */
export function responseFromValue({ status, statusText, headers, cf, encoded, whole, stream, length }) {
  // The standard class checks what came.
  const response = new Response(null, { status, statusText, headers });
  const inner = getInnerResponse(response);
  inner.body = bodyFromValue(whole, stream, length);
  inner.cf = cf;
  if (encoded) inner.encodeManually = true;
  return response;
}

const REASONS = /** @type {Record<number, string>} */ ({
  101: "Switching Protocols",
  200: "OK",
  201: "Created",
  202: "Accepted",
  203: "Non-Authoritative Information",
  204: "No Content",
  205: "Reset Content",
  206: "Partial Content",
  300: "Multiple Choices",
  301: "Moved Permanently",
  302: "Found",
  303: "See Other",
  304: "Not Modified",
  307: "Temporary Redirect",
  308: "Permanent Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  407: "Proxy Authentication Required",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  411: "Length Required",
  412: "Precondition Failed",
  413: "Payload Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  416: "Range Not Satisfiable",
  417: "Expectation Failed",
  418: "I'm a teapot",
  421: "Misdirected Request",
  422: "Unprocessable Entity",
  425: "Too Early",
  426: "Upgrade Required",
  428: "Precondition Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  451: "Unavailable For Legal Reasons",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
});

/** @param {number} status */
function reasonPhrase(status) {
  return REASONS[status] ?? "";
}
