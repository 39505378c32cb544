// config: {"starts": "a refusal that does not come"}
export default {
  fetch: () => new Response("serves"),
};
