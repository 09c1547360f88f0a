// Calls the tools of examples/tickets with the TypeScript SDK v2.
// Usage: ticket_v2.mjs legacy|auto URL | ticket_v2.mjs legacy|auto COMMAND ARGUMENT...
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { transportOf } from "./report.mjs";
import { report } from "./ticket.mjs";

const [mode] = process.argv.splice(2, 1);
const client = new Client({ name: "typescript-v2", version: "1.0.0" }, { versionNegotiation: { mode } });
const transport = transportOf({ StdioClientTransport, StreamableHTTPClientTransport });
await client.connect(transport);
await report(client, transport, (params, options) => client.callTool(params, options));
