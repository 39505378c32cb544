export default {
  async "what survives hibernation"(t) {
    const wakes = await t.socket("/wakes?n=1&tag=t&tag=u");
    const other = await t.socket("/wakes?n=2");
    const burst = await t.socket("/burst?n=1");
    const closes = await t.socket("/closes?n=1");
    const watches = await t.socket("/closes?n=2");
    const lost = await t.socket("/lost?n=1");
    const lostWatch = await t.socket("/lost?n=2");
    const greets = await t.socket("/greets?n=1");
    wakes.send("ping");
    t.equal(await wakes.next(), "pong");
    other.send("first");
    t.equal(await other.next(), "first 2");
    const firstStay = async (socket) => {
      socket.send("report");
      return JSON.parse(await socket.next());
    };
    t.equal((await firstStay(burst)).mine, "this instance");

    await t.sleep(13_000);

    // The auto-response answers, and wakes nobody.
    wakes.send("ping");
    t.equal(await wakes.next(), "pong");
    wakes.send("report");
    const report = JSON.parse(await wakes.next());
    for (const list of ["attachments", "tags", "stamps"]) report[list].sort();
    t.equal(report, {
      log: ["constructor 2 1 wakes", "message report"],
      attachments: [
        ["1", 2],
        ["2", 2],
      ],
      tags: ["", "t,u"],
      states: [1, 1],
      auto: "ping",
      timeout: 5000,
      stamps: [false, true],
      mine: null,
      known: true,
    });
    other.send("report");
    t.equal(JSON.parse(await other.next()).log, [
      "constructor 2 1 wakes",
      "message report",
      "message report",
    ]);
    for (let i = 0; i < 50; i++) burst.send(String(i));
    const answers = [];
    for (let i = 0; i < 50; i++) answers.push(await burst.next());
    t.equal(
      answers,
      Array.from({ length: 50 }, (_, i) => `${i} ${i + 2}`),
      "one constructor, then the messages in order",
    );
    t.equal((await closes.close(4001, "")).code, 4001);
    t.equal((await firstStay(watches)).log, [
      "constructor 2 0 closes",
      "close 4001 1",
      "message report",
    ]);
    lost.ws.terminate();
    await t.sleep(200);
    t.equal((await firstStay(lostWatch)).log, [
      "constructor 2 0 lost",
      "close 1006 1",
      "message report",
    ]);
    greets.send("x");
    t.equal([await greets.next(), await greets.next()], ["again", "x 2"]);
  },
};
