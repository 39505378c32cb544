/** Opens the document with the provider that the package ships, and waits for its contents. */
async function open(t, room) {
  const Y = t.load("yjs");
  const { default: Provider } = t.load("y-partyserver/provider");
  const doc = new Y.Doc();
  const provider = new Provider(t.url.replace(/^http:../, ""), room, doc, {
    party: "notes",
    disableBc: true,
  });
  t.closers.push(() => provider.destroy());
  await t.until(() => provider.synced, 5_000, "the first synchronization");
  return { doc, text: doc.getText("text"), provider };
}

const reads = (t, text, wanted) =>
  t.until(() => text.toString() === wanted, 5_000, `the text ${wanted}`);

export default {
  async "two clients converge"(t) {
    const [ann, bob] = [await open(t, "both"), await open(t, "both")];
    ann.text.insert(0, "hello");
    await reads(t, bob.text, "hello");
    // At the same time, in one place.
    ann.doc.transact(() => ann.text.insert(5, " Ann"));
    bob.doc.transact(() => bob.text.insert(5, " Bob"));
    await t.until(
      () =>
        ann.text.toString() === bob.text.toString() && ann.text.length === 13,
      5_000,
      "convergence",
    );
    t.match(ann.text.toString(), /^hello( Ann Bob| Bob Ann)$/);
  },
  "a document outlives the process": [
    async (t) => {
      const { text } = await open(t, "kept");
      text.insert(0, "kept text");
      await t.until(
        async () => (await t.json("/parties/notes/kept")).saved === 1,
        5_000,
        "the first save",
      );
    },
    async (t) => {
      const { text } = await open(t, "kept");
      t.equal(text.toString(), "kept text");
      text.insert(0, "well ");
      await t.until(
        async () =>
          (await t.json("/parties/notes/kept")).text === "well kept text",
        5_000,
        "the server's copy",
      );
    },
  ],
  async "awareness reaches the other client"(t) {
    const [ann, bob] = [await open(t, "aware"), await open(t, "aware")];
    ann.provider.awareness.setLocalStateField("user", { name: "ann" });
    await t.until(
      () =>
        [...bob.provider.awareness.getStates().values()].some(
          ({ user }) => user?.name === "ann",
        ),
      5_000,
      "the other's awareness",
    );
  },
};
