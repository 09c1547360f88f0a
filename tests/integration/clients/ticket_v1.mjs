// Calls the tools of examples/tickets with the TypeScript SDK v1, which checks results against the schemas it has seen.
// Usage: ticket_v1.mjs URL | ticket_v1.mjs COMMAND ARGUMENT...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { transportOf } from "./report.mjs";
import { report } from "./ticket.mjs";

const client = new Client({ name: "typescript-v1", version: "1.0.0" });
const transport = transportOf({ StdioClientTransport, StreamableHTTPClientTransport });
await client.connect(transport);
await report(client, transport, (params, options) => client.callTool(params, undefined, options));
