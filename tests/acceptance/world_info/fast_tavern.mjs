// Asks the npm package fast-tavern which entries it sets off: keys, secondary keys and recursion.
//
// node fast_tavern.mjs PACKAGE_FOLDER < cases.jsonl > answers.jsonl
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const tavern = await import(pathToFileURL(join(process.argv[2], 'dist/index.js')).href);

for await (const line of createInterface({ input: process.stdin })) {
    const one = JSON.parse(line);
    const entries = Object.entries(one.books).flatMap(([name, held]) =>
        Object.values(held).map((entry) => ({ ...entry, position: 0, name: `${name}.${entry.uid}` })));
    const { entries: book } = tavern.convertWorldBookFromSillyTavern({ name: 'all', entries });
    const answers = one.chats.map((chat) => ({
        active: tavern.getActiveEntries({
            contextText: chat.slice(0, one.settings.world_info_depth).join('\n'),
            globalEntries: book,
            options: { recursionLimit: one.settings.world_info_recursive ? 100 : 0, rng: () => one.rolls[0] },
        }).map((entry) => entry.name),
    }));
    process.stdout.write(`${JSON.stringify(answers)}\n`);
}
