// The module `node:diagnostics_channel`.
// @ts-check

/** @typedef {(message: any, name: string | symbol) => void} Subscriber */

/** Made by `channel()` alone. */
const made = Symbol("channel");

/** Values around a call: see `bindStore`. @typedef {import("./async_hooks.js").AsyncLocalStorage} Store */

/** Passes messages of one name to whoever subscribed to it. */
export class Channel {
  #subscribers = /** @type {Subscriber[]} */ ([]);
  #stores = /** @type {Map<Store, ((data: any) => any) | undefined>} */ (new Map());
  #name;

  /** @param {symbol} key @param {string | symbol} name */
  constructor(key, name) {
    if (key !== made) throw new TypeError("Illegal constructor");
    this.#name = name;
  }

  get name() {
    return this.#name;
  }

  get hasSubscribers() {
    return this.#subscribers.length > 0 || this.#stores.size > 0;
  }

  /** @param {Subscriber} subscriber */
  subscribe(subscriber) {
    if (typeof subscriber !== "function") {
      throw new TypeError(
        "Failed to execute 'subscribe' on 'Channel': parameter 1 is not of type 'function'.",
      );
    }
    // A list of its own for each publication that runs.
    this.#subscribers = [...this.#subscribers, subscriber];
  }

  /** @param {Subscriber} subscriber */
  unsubscribe(subscriber) {
    const rest = this.#subscribers.filter((known) => known !== subscriber);
    const found = rest.length < this.#subscribers.length;
    this.#subscribers = rest;
    return found;
  }

  /** @param {any} message */
  publish(message) {
    for (const subscriber of this.#subscribers) subscriber(message, this.#name);
  }

  /** @param {Store} store @param {(data: any) => any} [transform] */
  bindStore(store, transform) {
    this.#stores.set(store, transform);
  }

  /** @param {Store} store */
  unbindStore(store) {
    return this.#stores.delete(store);
  }

  /**
   * Publishes `data` and calls `callback` with every bound store set to it.
   * @param {any} data @param {Function} callback @param {any} [receiver] @param {any[]} args
   */
  runStores(data, callback, receiver, ...args) {
    let work = () => {
      this.publish(data);
      return Reflect.apply(callback, receiver, args);
    };
    for (const [store, transform] of this.#stores) {
      const inner = work;
      work = () => store.run(transform === undefined ? data : transform(data), inner);
    }
    return work();
  }
}

/** Channels live as long as the isolate: their number is that of the names in the code. */
const channels = /** @type {Map<string | symbol, Channel>} */ (new Map());

/** @param {string | symbol} name */
export function channel(name) {
  const key = typeof name === "symbol" ? name : String(name);
  let known = channels.get(key);
  if (known === undefined) {
    known = new Channel(made, key);
    channels.set(key, known);
  }
  return known;
}

/** @param {string | symbol} name */
export function hasSubscribers(name) {
  return channels.get(name)?.hasSubscribers ?? false;
}

/** @param {string | symbol} name @param {Subscriber} subscriber */
export function subscribe(name, subscriber) {
  channel(name).subscribe(subscriber);
}

/** @param {string | symbol} name @param {Subscriber} subscriber */
export function unsubscribe(name, subscriber) {
  return channel(name).unsubscribe(subscriber);
}

/** @typedef {"start" | "end" | "asyncStart" | "asyncEnd" | "error"} Phase */
const phases = /** @type {Phase[]} */ (["start", "end", "asyncStart", "asyncEnd", "error"]);

/** The five channels of a traced call. */
export class TracingChannel {
  #channels;

  /** @param {symbol} key @param {Record<Phase, Channel>} given */
  constructor(key, given) {
    if (key !== made) throw new TypeError("Illegal constructor");
    this.#channels = given;
  }

  get start() {
    return this.#channels.start;
  }

  get end() {
    return this.#channels.end;
  }

  get asyncStart() {
    return this.#channels.asyncStart;
  }

  get asyncEnd() {
    return this.#channels.asyncEnd;
  }

  get error() {
    return this.#channels.error;
  }

  get hasSubscribers() {
    return phases.some((phase) => this.#channels[phase].hasSubscribers);
  }

  /** @param {Partial<Record<Phase, Subscriber>>} subscribers */
  subscribe(subscribers) {
    for (const phase of phases) {
      const subscriber = subscribers[phase];
      if (subscriber !== undefined) this.#channels[phase].subscribe(subscriber);
    }
  }

  /** @param {Partial<Record<Phase, Subscriber>>} subscribers */
  unsubscribe(subscribers) {
    let all = true;
    for (const phase of phases) {
      const subscriber = subscribers[phase];
      if (subscriber !== undefined) all = this.#channels[phase].unsubscribe(subscriber) && all;
    }
    return all;
  }

  /** @param {Function} work @param {any} [context] @param {any} [receiver] @param {any[]} args */
  traceSync(work, context = {}, receiver = undefined, ...args) {
    const { start, end, error } = this.#channels;
    return start.runStores(context, () => {
      try {
        context.result = Reflect.apply(work, receiver, args);
        return context.result;
      } catch (thrown) {
        context.error = thrown;
        error.publish(context);
        throw thrown;
      } finally {
        end.publish(context);
      }
    });
  }

  /** @param {Function} work @param {any} [context] @param {any} [receiver] @param {any[]} args */
  tracePromise(work, context = {}, receiver = undefined, ...args) {
    const { start, end, asyncStart, asyncEnd, error } = this.#channels;
    /** @param {any} value */
    const resolved = (value) => {
      context.result = value;
      asyncStart.publish(context);
      asyncEnd.publish(context);
      return value;
    };
    /** @param {any} reason */
    const rejected = (reason) => {
      context.error = reason;
      error.publish(context);
      asyncStart.publish(context);
      asyncEnd.publish(context);
      throw reason;
    };
    return start.runStores(context, () => {
      try {
        return Promise.resolve(Reflect.apply(work, receiver, args)).then(resolved, rejected);
      } catch (thrown) {
        context.error = thrown;
        error.publish(context);
        throw thrown;
      } finally {
        end.publish(context);
      }
    });
  }

  /**
   * Traces a function that takes a callback `(error, result)` at `position` (-1: the last argument).
   * @param {Function} work @param {number} [position] @param {any} [context] @param {any} [receiver]
   * @param {any[]} args
   */
  traceCallback(work, position = -1, context = {}, receiver = undefined, ...args) {
    const { start, end, asyncStart, asyncEnd, error } = this.#channels;
    const callback = args.at(position);
    if (typeof callback !== "function") {
      throw new TypeError('The "callback" argument must be of type function.');
    }
    const wrapped = /** @this {any} @param {any[]} results */ function (...results) {
      const [failure, value] = results;
      if (failure) {
        context.error = failure;
        error.publish(context);
      } else {
        context.result = value;
      }
      return asyncStart.runStores(context, () => {
        try {
          return Reflect.apply(callback, this, results);
        } finally {
          asyncEnd.publish(context);
        }
      });
    };
    args.splice(position, 1, wrapped);
    return start.runStores(context, () => {
      try {
        return Reflect.apply(work, receiver, args);
      } catch (thrown) {
        context.error = thrown;
        error.publish(context);
        throw thrown;
      } finally {
        end.publish(context);
      }
    });
  }
}

/** @param {string | Record<Phase, Channel>} nameOrChannels */
export function tracingChannel(nameOrChannels) {
  if (typeof nameOrChannels !== "string") return new TracingChannel(made, nameOrChannels);
  const given = /** @type {Record<Phase, Channel>} */ ({});
  for (const phase of phases) given[phase] = channel(`tracing:${nameOrChannels}:${phase}`);
  return new TracingChannel(made, given);
}
