// Runs calls of the official Node SDK against a base URL, and prints what each gave as one JSON object.
import OpenAI, { toFile } from "openai";

const [baseURL, message, names] = [process.argv[2], process.argv[3], process.argv[4].split(",")];
const messages = [{ role: "user", content: message }];
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];

let attempts = 0;
const counted = (url, init) => {
  if (String(url).startsWith(baseURL)) attempts += 1; // the SDK also tries out what fetch can do
  return fetch(url, init);
};
const client = new OpenAI({ apiKey: "sk-client", baseURL, fetch: counted });

const whole = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};

const calls = {
  chat: () => client.chat.completions.create({ model: "m", messages }),
  chatStream: async () => whole(await client.chat.completions.create({ model: "m", messages, stream: true })),
  tools: () => client.chat.completions.create({ model: "m", messages, tools }),
  toolsStream: async () => whole(await client.chat.completions.create({ model: "m", messages, tools, stream: true })),
  responses: () => client.responses.create({ model: "m", input: message }),
  responsesStream: async () => whole(await client.responses.create({ model: "m", input: message, stream: true })),
  embeddings: () => client.embeddings.create({ model: "m", input: [message] }),
  models: async () => (await client.models.list()).data,
  model: () => client.models.retrieve("org/my model"),
  files: async () => client.files.create({ file: await toFile(Buffer.from(message), "f.txt"), purpose: "user_data" }),
};

const results = {};
for (const name of names) {
  attempts = 0;
  try {
    results[name] = { value: await calls[name](), attempts };
  } catch (error) {
    const { status, code, param, type } = error;
    results[name] = { error: error.constructor.name, status, code, param, type, message: error.message, attempts };
  }
}
console.log(JSON.stringify(results));
