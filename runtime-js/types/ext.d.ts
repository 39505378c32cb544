// Modules that the Rust side provides: deno_core's own, its ops, and the deno_* extensions.
declare module "ext:*";
