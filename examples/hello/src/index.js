export default {
  /** Greets whoever the path names: `/Ada` answers `Hello, Ada!`. */
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    let name;
    try {
      name = decodeURIComponent(pathname.slice(1)) || "world";
    } catch {
      return new Response("The path is not valid UTF-8.\n", { status: 400 });
    }
    console.log(`greeting ${name}`);
    return new Response(`${env.GREETING}, ${name}!\n`);
  },
};
