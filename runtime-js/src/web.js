// The web platform of the deno_* extensions, loaded once into the start-up snapshot.
// @ts-check

import { core } from "ext:core/mod.js";

const load = core.loadExtScript;

export const webidl = load("ext:deno_webidl/00_webidl.js");
export const url = load("ext:deno_web/00_url.js");
export const inspection = load("ext:deno_web/01_console.js");
export const domException = load("ext:deno_web/01_dom_exception.js");
export const urlPattern = load("ext:deno_web/01_urlpattern.js");
export const event = load("ext:deno_web/02_event.js");
export const timers = load("ext:deno_web/02_timers.js");
export const abort = load("ext:deno_web/03_abort_signal.js");
export const base64 = load("ext:deno_web/05_base64.js");
export const streams = load("ext:deno_web/06_streams.js");
export const encoding = load("ext:deno_web/08_text_encoding.js");
export const file = load("ext:deno_web/09_file.js");
export const messagePort = load("ext:deno_web/13_message_port.js");
export const compression = load("ext:deno_web/14_compression.js");
export const performanceApi = load("ext:deno_web/15_performance.js");
export const cryptoApi = load("ext:deno_crypto/00_crypto.js");
export const headers = load("ext:deno_fetch/20_headers.js");
export const formData = load("ext:deno_fetch/21_formdata.js");
export const body = load("ext:deno_fetch/22_body.js");
export const request = load("ext:deno_fetch/23_request.js");
export const response = load("ext:deno_fetch/23_response.js");
