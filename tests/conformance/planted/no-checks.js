export default {
  fetch: () => new Response("no checks here"),
};
