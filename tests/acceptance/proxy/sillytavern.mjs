// Plays a chat in SillyTavern's page, and prints one line of JSON for each step: its name, and the messages that the page shows then.
import { createRequire } from 'node:module';
const require = createRequire(`${process.env.PACKAGES}/`);
const { chromium } = require('playwright-core');

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
page.setDefaultTimeout(180_000);

const shown = () => page.evaluate(() => SillyTavern.getContext().chat.map((message) => message.mes));
const report = async (step, more = {}) => console.log(JSON.stringify({ step, shown: await shown(), ...more }));

// `act` makes the page call the model; done when the answer is there and the page is at rest.
async function generate(act) {
  const answer = page.waitForResponse((response) => response.url().includes('/chat-completions/generate'));
  await act();
  await (await answer).finished();
  await page.waitForFunction(() => document.body.dataset.generating !== 'true');
  await page.waitForTimeout(300);
}

// The page takes no message while it is still busy with the last one, so it is sent again until it is taken.
async function send(text) {
  await page.fill('#send_textarea', text);
  while (await page.inputValue('#send_textarea') === text) {
    await page.locator('#send_but').click();
    await page.waitForTimeout(1_000);
  }
}

const say = (text) => generate(() => send(text));

async function choose(option) {
  await page.locator('#options_button').click();
  await page.locator(option).click();
}

async function deleteFrom(place) {
  await choose('#option_delete_mes');
  await page.locator('#dialogue_del_mes_ok').waitFor();
  await page.locator(`.mes[mesid="${place}"]`).click();
  await page.locator('#dialogue_del_mes_ok').click();
  await page.waitForFunction((place) => SillyTavern.getContext().chat.length === place, place);
}

async function connect({ again = false }) {
  await page.goto(process.env.SILLYTAVERN);
  await page.waitForFunction(() => !document.getElementById('preloader') && window.SillyTavern, null, { timeout: 180_000 });
  const welcome = page.locator('dialog[open] .popup-button-ok').first();
  // It comes again if the page was left before it had saved its settings.
  if (again) await welcome.click({ timeout: 3_000 }).catch(() => {});
  else await welcome.click();
  await page.locator('#sys-settings-button .drawer-toggle').click();
  await page.selectOption('#main_api', 'openai');
  await page.selectOption('#chat_completion_source', 'custom');
  await page.fill('#custom_api_url_text', `${process.env.PROXY}/v1`);
  await page.fill('#api_key_custom', 'sk-player');
  await page.locator('#api_button_openai').click();
  await page.waitForFunction(() => document.querySelector('#model_custom_select option[value="scripted"]'));
  await page.selectOption('#model_custom_select', 'scripted');
  await page.locator('#sys-settings-button .drawer-toggle').click();
  await page.evaluate((tokens) => {
    const limit = document.querySelector('#openai_max_context');
    limit.value = tokens;
    limit.dispatchEvent(new Event('input', { bubbles: true }));
  }, process.env.CONTEXT_TOKENS);
  if (again) return;
  await page.evaluate(() => {
    const context = SillyTavern.getContext();
    return context.selectCharacterById(context.characters.findIndex((each) => each.name === 'Seraphina'));
  });
  await page.waitForFunction(() => SillyTavern.getContext().chat.length === 1);
}

const slash = (text) => page.evaluate((text) => SillyTavern.getContext().executeSlashCommandsWithOptions(text), text);

async function sayUntil(length) {
  for (let number = 1; (await shown()).length < length; number += 1) await say(`Tell me of path number ${number}.`);
}

const scenes = {
  async whole() {
    await report('greeting');
    await say('Where do you keep the silver key?');
    await report('message 3');
    await say('Tell me of the trees.');
    await generate(() => page.locator('.last_mes .swipe_right').click());
    await report('swiped');
    await page.locator('.last_mes .swipe_left').click();
    await page.waitForTimeout(800);
    await report('swiped back');
    await say('Tell me of the moss.');
    await report('after the swipe');
    await say('My password is heliotrope.');
    await deleteFrom(7);
    await report('deleted');
    await say('Tell me of the stream.');
    await report('after the deletion');
    await generate(async () => {
      await page.fill('#send_textarea', '/gen Write a haiku about this glade.');
      await page.keyboard.press('Enter');
    });
    await report('quiet prompt');
    await generate(() => choose('#option_impersonate'));
    await page.fill('#send_textarea', '');
    await report('impersonation');
    await generate(() => page.evaluate(() => {
      const source = document.querySelector('#summary_source');
      source.value = 'main';
      source.dispatchEvent(new Event('change', { bubbles: true }));
      document.querySelector('#memory_force_summarize').click();
    }));
    await report('summary');
    await generate(() => choose('#option_continue'));
    await report('continued');
    await sayUntil(39);
    await report('message 39');
    await say('Where did you say that you keep the silver key? And what is my password?');
    await report('message 41');
  },

  // Strict prompt processing, with an author's note four messages before the end: 40 turns.
  async strict() {
    await page.evaluate(() => {
      const select = document.querySelector('#custom_prompt_post_processing');
      select.value = 'strict';
      select.dispatchEvent(new Event('change', { bubbles: true }));
    });
    await slash('/note [The night is cold.] | /note-depth 4 | /note-frequency 1 | /note-position chat');
    await say('Where do you keep the silver key?');
    await sayUntil(79);
    await say('Where did you say that you keep the silver key?');
    await report('end');
  },

  // Two characters that answer each message in turn.
  async group() {
    await page.evaluate(async () => {
      const context = SillyTavern.getContext();
      const form = new FormData();
      for (const [name, value] of Object.entries({ ch_name: 'Bram', description: 'A miller.', first_mes: 'Good day.' })) form.append(name, value);
      const headers = context.getRequestHeaders();
      const made = await fetch('/api/characters/create', { method: 'POST', headers: { 'X-CSRF-Token': headers['X-CSRF-Token'] }, body: form });
      const members = [await made.text(), context.characters.find((each) => each.name === 'Seraphina').avatar];
      await fetch('/api/groups/create', { method: 'POST', headers, body: JSON.stringify({ name: 'Glade', members, activation_strategy: 1 }) });
    });
    await connect({ again: true });
    await slash('/go Glade');
    await page.waitForFunction(() => SillyTavern.getContext().groupId);
    for (let number = 1; number <= 5; number += 1) {
      const length = (await shown()).length;
      await send(`Tell me both of path number ${number}.`);
      await page.waitForFunction((length) => SillyTavern.getContext().chat.length === length + 3, length);
      await page.waitForFunction(() => document.body.dataset.generating !== 'true');
      await page.waitForTimeout(500);
    }
    await report('end');
  },
};

try {
  await connect({});
  await scenes[process.env.SCENE]();
  await page.screenshot({ path: process.env.SCREENSHOT });
} catch (error) {
  await page.screenshot({ path: process.env.SCREENSHOT });
  throw error;
} finally {
  await browser.close();
}
