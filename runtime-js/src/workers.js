// The module `cloudflare:workers`.
// @ts-check

import {
  entrypointBase,
  env as currentEnv,
  exportsOf,
  waitUntil as keepAlive,
  withEnvironment,
} from "./entry.js";
import { Fetcher } from "./rpc.js";
import { RpcPromise, RpcProperty, RpcStub } from "./rpc_stubs.js";
import { RpcTarget } from "./rpc_target.js";

export { RpcPromise, RpcProperty, RpcStub, RpcTarget };
/** What service bindings and stubs of Durable Objects are. */
export const ServiceStub = Fetcher;

/** Base class of entrypoints. */
export const WorkerEntrypoint = entrypointBase("WorkerEntrypoint");
/** Base class of Durable Objects that accept remote calls. */
export const DurableObject = entrypointBase("DurableObject");

/** Live view of the Worker's environment. */
export const env = new Proxy(
  {},
  {
    get: (_target, key) => Reflect.get(currentEnv(), key),
    has: (_target, key) => Reflect.has(currentEnv(), key),
    ownKeys: () => Reflect.ownKeys(currentEnv()),
    getOwnPropertyDescriptor: (_target, key) => {
      const descriptor = Reflect.getOwnPropertyDescriptor(currentEnv(), key);
      return descriptor === undefined ? undefined : { ...descriptor, configurable: true };
    },
  },
);

/** Live view of the Worker's own entrypoints. */
export const exports = new Proxy(
  {},
  {
    get: (_target, key) => Reflect.get(exportsOf(), key),
    has: (_target, key) => Reflect.has(exportsOf(), key),
  },
);

/** @param {Promise<unknown>} promise */
export function waitUntil(promise) {
  keepAlive(promise);
}

/** @param {any} value @param {() => any} work */
export function withEnv(value, work) {
  return withEnvironment(value, work);
}

/** A class that is there to be imported and cannot be used. @param {string} name */
export function unsupported(name) {
  return class {
    constructor() {
      throw new Error(`${name} is not supported by this version of celld.`);
    }
  };
}

export const WorkflowEntrypoint = unsupported("WorkflowEntrypoint");
