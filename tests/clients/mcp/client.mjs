// The official TypeScript SDK as a client: prints all that a server offers, and what the calls of a file return.
// node client.mjs CALLS URL | node client.mjs CALLS COMMAND ARGS...; CALLS is a file with [[tool, arguments], ...].
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.PLACE}/package.json`);
const load = async (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const [file, ...target] = process.argv.slice(2);
const client = new Client({ name: "test", version: "1" });
const transport = target[0].startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target[0]))
  : new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env });
await client.connect(transport);
const capabilities = client.getServerCapabilities();
const found = { instructions: client.getInstructions() ?? null, tools: await client.listTools() };
if (capabilities.resources) {
  found.resources = await client.listResources();
  found.templates = await client.listResourceTemplates();
}
if (capabilities.prompts) found.prompts = await client.listPrompts();
found.results = [];
for (const [name, args] of JSON.parse(readFileSync(file, "utf8"))) {
  try {
    found.results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    found.results.push({ error: error.message });
  }
}
await client.ping();
await client.close();
console.log(JSON.stringify(found));
process.exit(0);
