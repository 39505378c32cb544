import page from "./page.html";
import { type Env, Room, isRoomName } from "./room";

export { Room };

export default {
  /** `/` is the page; `/rooms/<name>` is the socket of a room. */
  async fetch(request, env): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/") {
      return new Response(page, {
        headers: {
          "Content-Type": "text/html; charset=utf-8",
          "Content-Security-Policy":
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
        },
      });
    }
    const name = pathname.match(/^\/rooms\/([^/]+)$/)?.[1];
    if (name === undefined)
      return new Response("Not found.\n", { status: 404 });
    if (!isRoomName(name)) {
      return new Response(
        "A room's name has 1 to 40 letters, digits or hyphens.\n",
        { status: 400 },
      );
    }
    return env.ROOM.getByName(name).fetch(request);
  },
} satisfies ExportedHandler<Env>;
