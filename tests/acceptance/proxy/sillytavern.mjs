// Plays a chat in SillyTavern's page, and prints one line of JSON for each step: its name, and the messages that the page shows then.
import { createRequire } from 'node:module';
const require = createRequire(`${process.env.PACKAGES}/`);
const { chromium } = require('playwright-core');

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
page.setDefaultTimeout(60_000);

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

const say = (text) => generate(async () => {
  await page.fill('#send_textarea', text);
  await page.locator('#send_but').click();
});

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

async function connect() {
  await page.goto(process.env.SILLYTAVERN);
  await page.waitForFunction(() => !document.getElementById('preloader') && window.SillyTavern, null, { timeout: 180_000 });
  await page.locator('dialog[open] .popup-button-ok').first().click();
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
  await page.evaluate(() => {
    const context = SillyTavern.getContext();
    return context.selectCharacterById(context.characters.findIndex((each) => each.name === 'Seraphina'));
  });
  await page.waitForFunction(() => SillyTavern.getContext().chat.length === 1);
}

try {
  await connect();
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
  for (let number = 1; (await shown()).length < 39; number += 1) await say(`Tell me of path number ${number}.`);
  await report('message 39');
  await say('Where did you say that you keep the silver key? And what is my password?');
  await report('message 41');
  await page.screenshot({ path: process.env.SCREENSHOT });
} catch (error) {
  await page.screenshot({ path: process.env.SCREENSHOT });
  throw error;
} finally {
  await browser.close();
}
