import { routePartykitRequest, Server } from "partyserver";
import type { Connection, ConnectionContext, WSMessage } from "partyserver";

interface Env {
  Room: DurableObjectNamespace<Room>;
  Sleeper: DurableObjectNamespace<Sleeper>;
}

/** A room whose sockets keep it awake. */
export class Room extends Server<Env> {
  onConnect(connection: Connection, ctx: ConnectionContext) {
    const who = new URL(ctx.request.url).searchParams.get("who");
    connection.setState({ who });
    connection.send(`welcome to ${this.name}`);
    this.broadcast(`${who} joined`, [connection.id]);
  }

  onMessage(connection: Connection<{ who: string }>, message: WSMessage) {
    this.broadcast(`${connection.state?.who}: ${message}`);
  }

  onClose(connection: Connection<{ who: string }>) {
    this.broadcast(`${connection.state?.who} left`);
  }

  onRequest() {
    const names = [...this.getConnections<{ who: string }>()].map(
      ({ state }) => state?.who,
    );
    return Response.json({ room: this.name, names: names.sort() });
  }
}

/** The same room, with sockets that let it sleep. */
export class Sleeper extends Room {
  static options = { hibernate: true };
}

export default {
  async fetch(request, env) {
    return (
      (await routePartykitRequest(request, env as never)) ??
      new Response("no such room", { status: 404 })
    );
  },
} satisfies ExportedHandler<Env>;
