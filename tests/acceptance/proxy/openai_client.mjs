// Calls the proxy with the `openai` package of npm, unchanged but for its base URL, and prints one line of JSON a check.
import { createRequire } from 'node:module';
const require = createRequire(`${process.env.PACKAGES}/`);
const OpenAI = require('openai').default ?? require('openai');

const client = new OpenAI({ baseURL: `${process.env.PROXY}/v1`, apiKey: 'sk-client', maxRetries: 0 });
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }];
const ask = (content, more = {}) =>
  client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content }], ...more });

function expect(holds, found) {
  if (!holds) throw new Error(`found ${JSON.stringify(found)}`);
}

const checks = {
  async 'plain call'() {
    const { data, response } = await ask('plain').withResponse();
    expect(data.choices[0].message.content === 'It rains in Oslo.', data);
    expect(data.usage.total_tokens > 0, data.usage);
    expect(response.headers.get('x-jacquard-receipt'), [...response.headers]);
  },
  async 'stream, with usage'() {
    let text = '', usage = null;
    for await (const chunk of await ask('plain, as a stream', { stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta?.content ?? '';
      usage = chunk.usage ?? usage;
    }
    expect(text === 'It rains in Oslo.' && usage?.total_tokens > 0, [text, usage]);
  },
  async 'tool call and its result'() {
    const messages = [{ role: 'user', content: 'use the tool' }];
    const first = await client.chat.completions.create({ model: 'm', messages, tools });
    const [call] = first.choices[0].message.tool_calls;
    expect(call.function.name === 'weather' && JSON.parse(call.function.arguments).city === 'Oslo', call);
    messages.push(first.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'Rain, 7 degrees.' });
    const second = await client.chat.completions.create({ model: 'm', messages, tools });
    expect(second.choices[0].message.content === 'It rains in Oslo.', second);
  },
  async 'tool call, as a stream'() {
    let name = '', words = '';
    for await (const chunk of await ask('use the tool, as a stream', { tools, stream: true })) {
      for (const call of chunk.choices[0]?.delta?.tool_calls ?? []) {
        name += call.function?.name ?? '';
        words += call.function?.arguments ?? '';
      }
    }
    expect(name === 'weather' && JSON.parse(words).city === 'Oslo', [name, words]);
  },
  async '429 of the model server'() {
    const error = await ask('fail with 429').catch((error) => error);
    expect(error instanceof OpenAI.RateLimitError && error.status === 429, String(error));
    expect(error.headers.get('retry-after') === '7' && error.message.includes('scripted failure'), String(error));
  },
  async '500 of the model server, as a stream'() {
    const error = await ask('fail with 500', { stream: true }).catch((error) => error);
    expect(error instanceof OpenAI.InternalServerError && error.status === 500, String(error));
  },
  async 'cancelled stream'() {
    const stream = await ask('go on slowly', { stream: true });
    let count = 0;
    for await (const _ of stream) if (++count === 4) stream.controller.abort();
    expect(count >= 4 && count < 30, count);
  },
  async 'list of models'() {
    const names = [];
    for await (const model of await client.models.list()) names.push(model.id);
    expect(names.join() === 'scripted', names);
  },
};

for (const [name, check] of Object.entries(checks)) {
  let detail = '';
  try { await check(); } catch (error) { detail = String(error.message ?? error).slice(0, 300); }
  console.log(JSON.stringify({ check: `openai ${process.env.OPENAI_RELEASE}: ${name}`, holds: !detail, detail }));
}
