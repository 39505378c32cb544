export default {
  fetch: () => new Response("answer"),
};
