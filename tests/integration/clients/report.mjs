// What the two clients have in common: how they reach the server, and what they say of it.

export function transportOf({ StdioClientTransport, StreamableHTTPClientTransport }) {
  const [first, ...rest] = process.argv.slice(2);
  if (first.startsWith("http://")) return new StreamableHTTPClientTransport(new URL(first));
  return new StdioClientTransport({ command: first, args: rest, env: process.env, cwd: process.cwd() });
}

export async function report(client, uris) {
  const uri = uris[uris.length - 1];
  const { contents } = await client.readResource({ uri });
  const found = await client.callTool({ name: "search_agents", arguments: { query: "agent 4711", limit: 3 } });
  const tools = await client.listTools();
  const said = {
    uris,
    read: JSON.parse(contents[0].text).uri,
    found: found.structuredContent.agents.map((agent) => agent.uri),
    tools: tools.tools.map((tool) => tool.name),
    version: client.getNegotiatedProtocolVersion?.() ?? null,
  };
  process.stdout.write(JSON.stringify(said) + "\n", async () => {
    await client.close();
    process.exit(0);
  });
}
