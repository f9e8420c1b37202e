// The shared scenario through OpenAI's client for Node; prints what it was given, as JSON.
const { OpenAI } = require("openai");

const [url, key, model, canary] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
const parameters = { type: "object", properties: { who: { type: "string" } } };
const tools = [{ type: "function", function: { name: "find", parameters } }];

async function main() {
  const messages = [
    { role: "system", content: `${canary} system` },
    { role: "user", content: `${canary} question` },
  ];
  const asked = await client.chat.completions.create({ model, messages, tools });
  const message = asked.choices[0].message;
  messages.push(message);
  messages.push({
    role: "tool",
    tool_call_id: message.tool_calls[0].id,
    content: `${canary} result`,
  });
  const pieces = await client.chat.completions.create({ model, messages, tools, stream: true });
  let text = "";
  for await (const piece of pieces) text += piece.choices[0]?.delta?.content ?? "";
  await client.responses.create({ model, input: `${canary} question` });
  console.log(JSON.stringify([message.tool_calls[0].function.arguments, text]));
}

main();
