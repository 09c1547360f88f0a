// Pages through a server with the TypeScript SDK v2, reads one agent and searches; prints what it saw as JSON.
// Usage: page_v2.mjs legacy|auto URL | page_v2.mjs legacy|auto COMMAND ARGUMENT...
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { report, transportOf } from "./report.mjs";

const [mode] = process.argv.splice(2, 1);
const client = new Client({ name: "typescript-v2", version: "1.0.0" }, { versionNegotiation: { mode } });
await client.connect(transportOf({ StdioClientTransport, StreamableHTTPClientTransport }));

// Without a cursor this client follows 64 pages by itself and then gives up; with one it asks for a page at a time.
const uris = [];
let cursor = "";
do {
  const page = await client.listResources({ cursor, _meta: { "agent-resolver/limit": 100 } });
  uris.push(...page.resources.map((resource) => resource.uri));
  cursor = page.nextCursor;
} while (cursor !== undefined);
await report(client, uris);
