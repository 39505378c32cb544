async function talk(t, party) {
  const room = `/parties/${party}/lobby`;
  const ann = await t.socket(`${room}?who=ann`);
  t.equal(await ann.next(), "welcome to lobby");
  const bob = await t.socket(`${room}?who=bob`);
  t.equal(await bob.next(), "welcome to lobby");
  t.equal(await ann.next(), "bob joined");
  bob.send("hi all");
  t.equal([await ann.next(), await bob.next()], ["bob: hi all", "bob: hi all"]);
  t.equal(await t.json(room), { room: "lobby", names: ["ann", "bob"] });
  await bob.close(1000, "bye");
  t.equal(await ann.next(), "bob left");
  t.equal((await t.json(room)).names, ["ann"]);
}

export default {
  "two clients talk in a room": (t) => talk(t, "room"),
  "two clients talk in a room that may sleep": (t) => talk(t, "sleeper"),
  async "another path is not a room"(t) {
    t.equal(await t.text("/elsewhere"), "no such room");
  },
};
