// What the clients of both SDKs do with the tools of examples/tickets; prints what they saw as JSON.

export async function report(client, transport, callTool) {
  const { tools, _meta } = await client.listTools();
  const { tools: connectors } = await client.listTools({ cursor: "", _meta: { "agent-resolver/tag": "connector" } });
  const search = await callTool({ name: "tickets__search", arguments: { text: "login" } });

  // What comes in, in its order: the SDK hands on a notification only after it has looked at the next message.
  const wire = [];
  const receive = transport.onmessage;
  transport.onmessage = (message, extra) => {
    wire.push(message.method ?? "result");
    receive(message, extra);
  };
  const progress = [];
  const create = await callTool({ name: "tickets__create", arguments: { title: "Seen" } }, {
    onprogress: (each) => progress.push(each),
  });
  transport.onmessage = receive;

  const purge = await callTool({ name: "tickets__purge", arguments: { ids: [2] } });
  const waiting = await callTool({ name: "inbox_list", arguments: {} });
  const approve = await callTool({ name: "inbox_approve", arguments: { id: purge.structuredContent.id } });
  const bad = await callTool({ name: "tickets__search", arguments: { limit: 0, more: 1 } });
  const unknown = await callTool({ name: "tickets__nothing", arguments: {} }).catch((error) => error.code);
  const said = {
    tools: tools.map((tool) => tool.name),
    manifest: _meta["agent-resolver/manifest"],
    connectors: connectors.map((tool) => tool.name),
    search: search.structuredContent,
    wire,
    progress,
    create,
    purge,
    waiting: waiting.structuredContent.actions,
    approve,
    bad,
    unknown,
    version: client.getNegotiatedProtocolVersion?.() ?? null,
  };
  process.stdout.write(JSON.stringify(said) + "\n", async () => {
    await client.close();
    process.exit(0);
  });
}
