// Asks SillyTavern itself, in Chromium: its server is started on a free port with an empty data folder, and its own page answers.
//
// node browser.mjs PACKAGE_FOLDER < cases.jsonl > answers.jsonl
//
// The folder holds SillyTavern's npm package with what it needs, and playwright-core (`run.sh --browser` installs them). The page's own
// modules decide; they are given the case (books, character, chat, settings), a random number, and the length of a text as its tokens.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const folder = process.argv[2];
const { chromium } = createRequire(join(folder, 'package.json'))('playwright-core');
const data = mkdtempSync(join(tmpdir(), 'jacquard-acceptance-'));

const freePort = () => new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
        const { port } = server.address();
        server.close(() => resolve(port));
    });
});

const port = await freePort();
const server = spawn(process.execPath, [
    'server.js', '--port', String(port), '--listen', 'false', '--browserLaunchEnabled', 'false', '--dataRoot', data,
    '--configPath', join(data, 'config.yaml'),
], { cwd: folder, stdio: 'ignore' });
let browser;
try {
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
    const page = await browser.newPage();
    await page.route('**/api/tokenizers/*/encode', (route) => {
        const { text } = route.request().postDataJSON();
        return route.fulfill({ json: { ids: [], chunks: [], count: text.length } });
    });
    for (let tries = 0; ; tries++) {
        try {
            await page.goto(`http://127.0.0.1:${port}/`, { waitUntil: 'domcontentloaded' });
            break;
        } catch (error) {
            if (tries > 300 || server.exitCode !== null) { throw error; }
            await new Promise((resolve) => setTimeout(resolve, 1000));
        }
    }
    await page.waitForFunction(() => globalThis.SillyTavern && !document.getElementById('preloader'), null, { timeout: 300_000 });
    await page.evaluate(async () => {
        const script = await import('/script.js');
        const books = await import('/scripts/world-info.js');
        const { power_user } = await import('/scripts/power-user.js');
        const { tag_map } = await import('/scripts/tags.js');
        script.changeMainAPI('kobold');
        power_user.tokenizer = 3;
        globalThis.answer = async (one) => {
            let place = 0;
            Math.random = () => one.rolls[place++ % one.rolls.length];
            const avatar = `${one.character_file}.png`;
            const character = { name: 'card', avatar, data: { extensions: { world: 'C' } } };
            script.characters.splice(0, script.characters.length, character);
            script.setCharacterId(0);
            tag_map[avatar] = one.character_tags;
            for (const key of Object.keys(script.chat_metadata)) { delete script.chat_metadata[key]; }
            Object.assign(script.chat_metadata, { timedWorldInfo: structuredClone(one.effects), world_info: 'H' });
            books.worldInfoCache.clear();
            for (const name of ['G', 'C', 'H']) { books.worldInfoCache.set(name, { entries: one.books[name] ?? {} }); }
            books.setWorldInfoSettings(
                { ...one.settings, world_info: { globalSelect: books.selected_world_info.includes('G') ? [] : ['G'] } },
                { world_names: ['G', 'C', 'H'] },
            );
            const answers = [];
            for (const chat of one.chats) {
                const found = await books.checkWorldInfo(chat, one.context_tokens, false, { trigger: one.trigger, ...one.fields });
                answers.push({
                    active: [...found.allActivatedEntries.values()].map((entry) => `${entry.world}.${entry.uid}`),
                    before: found.worldInfoBefore,
                    after: found.worldInfoAfter,
                    depth: found.WIDepthEntries.map((each) => [each.depth, each.role, each.entries]),
                });
            }
            return answers;
        };
    });
    for await (const line of createInterface({ input: process.stdin })) {
        process.stdout.write(`${JSON.stringify(await page.evaluate((one) => globalThis.answer(one), JSON.parse(line)))}\n`);
    }
} finally {
    await browser?.close();
    server.kill();
    rmSync(data, { recursive: true, force: true });
}
