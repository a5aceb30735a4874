// Runs SillyTavern's own activation of world info, read from its npm package, on cases from standard input: one JSON object a line.
//
// node --experimental-vm-modules oracle.mjs PACKAGE_FOLDER < cases.jsonl > answers.jsonl
//
// The module `public/scripts/world-info.js` is loaded as it is. What it imports from the page around it (elements, settings, slash
// commands) is replaced by objects that do nothing; what decides about activation is given real parts below. Nothing of SillyTavern is
// part of this repository.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import vm from 'node:vm';

const source = readFileSync(join(process.argv[2], 'public/scripts/world-info.js'), 'utf8');
const nothing = new Proxy(function () {}, {
    get: (_, key) => key === Symbol.toPrimitive ? () => '' : key === Symbol.iterator ? function* () {} : key === 'then' ? undefined : nothing,
    apply: () => nothing,
    construct: () => nothing,
    set: () => true,
    has: () => true,
});
let current = {};
const metadata = {};
const character = { name: 'card', avatar: 'card.png', data: { extensions: { world: 'C' } } };
class CloneMap extends Map {
    constructor() { super(); }
    get(key) { return structuredClone(super.get(key)); }
}
const parts = {
    substituteParams: (text) => String(text),
    chat_metadata: metadata,
    this_chid: 0,
    characters: [character],
    eventSource: { emit: async () => {}, on: () => {}, once: () => {}, makeFirst: () => {} },
    extension_prompt_roles: { SYSTEM: 0, USER: 1, ASSISTANT: 2 },
    getExtensionPromptByName: async () => '',
    getCharaFilename: () => current.character_file,
    getTagKeyForEntity: () => 'card',
    getContext: () => ({ extensionPrompts: {}, tagMap: { card: current.character_tags }, setExtensionPrompt: () => {} }),
    escapeRegex: (text) => text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&'),
    getStringHash: (text) => { let hash = 0; for (const char of text) { hash = (hash * 31 + char.codePointAt(0)) % 9007199254740881; } return hash; },
    getTokenCountAsync: async (text) => text.length,
    getRegexedString: (text) => text,
    shouldWIAddPrompt: false,
    StructuredCloneMap: CloneMap,
    debounce: (call) => call,
    power_user: {},
    extension_settings: { note: {} },
    metadata_keys: {},
    accountStorage: { getItem: () => null, setItem: () => {} },
};
const random = { next: () => 0 };
const fixed = Object.create(Math, { random: { value: () => random.next() } });
for (const name of Object.getOwnPropertyNames(Math)) {
    if (name !== 'random') { Object.defineProperty(fixed, name, { value: Math[name] }); }
}
const quiet = { log() {}, debug() {}, warn() {}, error() {}, info() {}, trace() {} };
const context = vm.createContext({
    console: quiet, Math: fixed, structuredClone, setTimeout, clearTimeout, $: nothing, jQuery: nothing, document: nothing,
    window: nothing, toastr: nothing, localStorage: nothing, navigator: nothing,
});
const names = {};
for (const [, list, path] of source.matchAll(/^import\s*\{([^}]*)\}\s*from\s*'([^']+)'/gm)) {
    names[path] = (names[path] ?? []).concat(list.split(',').map((each) => each.trim().split(/\s+as\s+/)[0]).filter(Boolean));
}
const module = new vm.SourceTextModule(source, { context });
await module.link((path) => {
    const exported = [...new Set(names[path] ?? [])];
    return new vm.SyntheticModule(exported, function () {
        for (const name of exported) { this.setExport(name, name in parts ? parts[name] : nothing); }
    }, { context });
});
await module.evaluate();
const scripts = module.namespace;

for await (const line of createInterface({ input: process.stdin })) {
    const one = JSON.parse(line);
    current = one;
    let place = 0;
    random.next = () => one.rolls[place++ % one.rolls.length];
    for (const key of Object.keys(metadata)) { delete metadata[key]; }
    metadata.timedWorldInfo = structuredClone(one.effects);
    metadata.world_info = 'H';
    scripts.worldInfoCache.clear();
    for (const name of ['G', 'C', 'H']) { scripts.worldInfoCache.set(name, { entries: one.books[name] ?? {} }); }
    scripts.setWorldInfoSettings(
        { ...one.settings, world_info: { globalSelect: scripts.selected_world_info.includes('G') ? [] : ['G'] } },
        { world_names: ['G', 'C', 'H'] },
    );
    const answers = [];
    for (const chat of one.chats) {
        const found = await scripts.checkWorldInfo(chat, one.context_tokens, false, { trigger: one.trigger, ...one.fields });
        answers.push({
            active: [...found.allActivatedEntries.values()].map((entry) => `${entry.world}.${entry.uid}`),
            before: found.worldInfoBefore,
            after: found.worldInfoAfter,
            depth: found.WIDepthEntries.map((each) => [each.depth, each.role, each.entries]),
        });
    }
    process.stdout.write(`${JSON.stringify(answers)}\n`);
}
