import { Agent, callable, getCurrentAgent, routeAgentRequest } from "agents";

type State = { tasks: string[]; done: number };

export class Tasks extends Agent<unknown, State> {
  initialState: State = { tasks: [], done: 0 };

  add(task: string) {
    this.setState({ ...this.state, tasks: [...this.state.tasks, task] });
    return this.state.tasks.length;
  }

  fail() {
    throw new RangeError("no such task");
  }

  /** What carries the agent through promises is an AsyncLocalStorage. */
  async current() {
    await scheduler.wait(1);
    const { agent, connection } = getCurrentAgent<Tasks>();
    return [agent === this, connection !== undefined, this.name];
  }

  async remind(seconds: number, task: string) {
    const { type } = await this.schedule(seconds, "finish", { task });
    return { type, pending: this.getSchedules().length };
  }

  async finish({ task }: { task: string }) {
    this.sql`CREATE TABLE IF NOT EXISTS finished (task TEXT)`;
    this.sql`INSERT INTO finished VALUES (${task})`;
    this.setState({ ...this.state, done: this.state.done + 1 });
  }

  finished() {
    return this.sql<{ task: string }>`SELECT task FROM finished`;
  }

  hidden() {
    return "not callable";
  }

  async onRequest() {
    return Response.json(this.state);
  }
}

// What `@callable()` does: the bundler leaves decorators of the ECMAScript proposal alone.
for (const name of ["add", "fail", "current", "remind", "finished"] as const) {
  callable()(Tasks.prototype[name] as never, { name } as never);
}

export default {
  async fetch(request, env) {
    return (
      (await routeAgentRequest(request, env as never)) ??
      new Response("no such agent", { status: 404 })
    );
  },
} satisfies ExportedHandler;
