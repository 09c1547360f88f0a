// Pages through a server with the TypeScript SDK v1, reads one agent and searches; prints what it saw as JSON.
// Usage: page_v1.mjs URL | page_v1.mjs COMMAND ARGUMENT...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { report, transportOf } from "./report.mjs";

const client = new Client({ name: "typescript-v1", version: "1.0.0" });
await client.connect(transportOf({ StdioClientTransport, StreamableHTTPClientTransport }));

const uris = [];
let cursor;
do {
  const page = await client.listResources({ cursor, _meta: { "agent-resolver/limit": 100 } });
  uris.push(...page.resources.map((resource) => resource.uri));
  cursor = page.nextCursor;
} while (cursor !== undefined);
await report(client, uris);
