// The module `cloudflare:email`.
// @ts-check

import { unsupported } from "./workers.js";

export const EmailMessage = unsupported("EmailMessage");
